"""Reads keys of ArchEHR-QA: labels of sentences (2025) and citations of the clinician's answer (2026).

Source: archehr-qa_key.json of both shared tasks. Releases of 2026 hold `citations` as a list or as text with commas.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from archqa.core.judgement import Relevance
from archqa.core.key import CaseKey, ClinicianSentence, KeyReview
from archqa.core.near_misses import near_misses
from archqa.errors import InputError
from archqa.tasks.files.json_node import JsonContent, JsonNode
from archqa.tasks.files.mistakes import FileErrors, printable
from archqa.tasks.files.source import Source

_FIX = "Not the form of a key; data/README.md shows it."
_KEY_FIELDS = (
    "answers",
    "clinician_answer",
    "clinician_answer_without_citations",
    "clinician_answer_sentences",
)
_LABELS = [str(label) for label in Relevance]
_ID = re.compile(r"[A-Za-z0-9_.:-]+")
_DIGITS = re.compile(r"[0-9-]*-[0-9-]*")
_RANGE = re.compile(r"([0-9]{1,6})-([0-9]{1,6})")
_MAX_RANGE = 1000
_FORMS = 'should be ["2", "5"], "2,5", "" or a range "19-25"'


def read_key(source: Source) -> dict[str, CaseKey]:
    """Case id to key, in the file's order; labels and answers are empty where a release withholds them.

    Raises `InputError` with every error of the file. `check_key_matches` compares a key with its cases.
    """
    content = source.content
    if not isinstance(content, JsonContent):
        raise InputError(
            source.path, [f": a key is JSON; this file is {content.format.upper()}."], _FIX
        )
    mistakes = FileErrors(source.path, _FIX)
    nodes = content.entries(mistakes)
    if nodes and not content.fields & set(_KEY_FIELDS):
        mistakes.add("", f"no entry has any of {', '.join(_KEY_FIELDS)}: this is no key.")
    keys: dict[str, CaseKey] = {}
    for node in nodes:
        key = _key(node)
        if key.case_id in keys and key.case_id:
            node.add_error("case_id", "stands in an earlier entry too; keep one.")
        keys.setdefault(key.case_id, key)
    mistakes.raise_if_any()
    return keys


def _key(node: JsonNode) -> CaseKey:
    node.expect(("case_id", *_KEY_FIELDS))
    return CaseKey(
        case_id=node.required("case_id"),
        labels=_labels(node.rows("answers")),
        clinician_answer=node.text("clinician_answer"),
        clinician_answer_without_citations=node.text("clinician_answer_without_citations"),
        clinician_answer_sentences=_clinician_sentences(node.rows("clinician_answer_sentences")),
        review=_review(node),
    )


def _review(node: JsonNode) -> KeyReview | None:
    """What a row says of its reviews; None where its labels do not come from reviews."""
    value = node.value("review")
    if not isinstance(value, Mapping):
        return None
    reviewers = _names(value.get("reviewers"))
    if not reviewers:
        node.add_error("review", "names no reviewers; write the key of the reviews anew.")
        return None
    disagreements = value.get("disagreements")
    return KeyReview(
        reviewers=reviewers,
        runs=_names(value.get("runs")),
        run_versions=_names(value.get("run_versions")),
        blind=value.get("blind") is True,
        disagreements=disagreements if type(disagreements) is int else 0,
    )


def _names(value: Any) -> tuple[str, ...]:
    names = value if isinstance(value, list) else []
    return tuple(name for name in names if isinstance(name, str) and name)


def _labels(rows: Sequence[JsonNode]) -> dict[str, Relevance]:
    labels: dict[str, Relevance] = {}
    for row in rows:
        row.expect(("sentence_id", "relevance"))
        sentence_id = row.required("sentence_id")
        relevance = _relevance(row)
        if sentence_id and sentence_id in labels:
            row.add_error(
                "sentence_id", f"'{printable(sentence_id)}' is labelled twice; keep one label."
            )
        labels.setdefault(sentence_id, relevance)
    return labels


def _relevance(row: JsonNode) -> Relevance:
    text = row.required("relevance")
    if text in _LABELS:
        return Relevance(text)
    if text:
        similar = near_misses(text, _LABELS)
        advice = f"did you mean {similar[0]}?" if similar else f"write one of {', '.join(_LABELS)}."
        row.add_error("relevance", f"'{printable(text)}' is no label; {advice}")
    return Relevance.NOT_RELEVANT  # Never used: the file is refused.


def _clinician_sentences(rows: Sequence[JsonNode]) -> tuple[ClinicianSentence, ...]:
    sentences: dict[str, ClinicianSentence] = {}
    for row in rows:
        row.expect(("id", "text", "citations"))
        sentence = ClinicianSentence(
            id=row.required("id"), text=row.required("text"), citations=_citations(row)
        )
        if sentence.id and sentence.id in sentences:
            row.add_error(
                "id",
                f"'{printable(sentence.id)}' is the id of an earlier sentence; give each its own.",
            )
        sentences.setdefault(sentence.id, sentence)
    return tuple(sentences.values())


def _citations(row: JsonNode) -> tuple[str, ...]:
    """The cited ids without repetition, in the key's order; none when a test release withholds them."""
    if "citations" not in row:
        return ()
    ids: list[str] = []
    for piece in _citation_pieces(row):
        expanded = _expand(piece)
        if not expanded:
            row.add_error(
                "citations", f"{_FORMS}; '{printable(piece)}' is neither an id nor a range."
            )
        ids.extend(expanded)
    return tuple(dict.fromkeys(ids))


def _citation_pieces(row: JsonNode) -> list[str]:
    value = row.value("citations")
    if isinstance(value, str):
        pieces = value.split(",") if value.strip() else []
    elif isinstance(value, list) and all(isinstance(element, str) for element in value):
        pieces = value
    else:
        row.add_error("citations", f"{_FORMS}.")
        return []
    return [piece.strip() for piece in pieces]


def _expand(piece: str) -> list[str]:
    """`19-25` as seven ids, an id as itself, anything else as nothing."""
    bounds = _RANGE.fullmatch(piece)
    if bounds:
        start = int(bounds[1])
        end = int(bounds[2])
        if end - start >= _MAX_RANGE:
            return []
        return [str(number) for number in range(start, end + 1)]
    if _DIGITS.fullmatch(piece) or not _ID.fullmatch(piece):
        return []
    return [piece]
