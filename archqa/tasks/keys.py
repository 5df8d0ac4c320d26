"""Keys of ArchEHR-QA: labels of sentences (2025) and citations of the clinician's answer (2026).

Source: archehr-qa_key.json of both shared tasks. Releases of 2026 hold `citations` as a list or as text with commas.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from archqa.core.case import Case
from archqa.core.id_lists import list_ids
from archqa.core.judgement import Relevance
from archqa.core.key import CaseKey, ClinicianSentence, KeyReview
from archqa.core.near_misses import near_misses
from archqa.errors import InputError, without_suppressed_causes
from archqa.tasks.files.json_node import JsonContent, JsonNode
from archqa.tasks.files.mistakes import FileErrors, are_texts, printable
from archqa.tasks.files.source import read_source, resolve_path
from archqa.tasks.task import CaseSource, KeyFile

_FIX = "Not the form of a key; data/README.md shows it."
_KEY_FIELDS = (
    "answers",
    "clinician_answer",
    "clinician_answer_without_citations",
    "clinician_answer_sentences",
)
_LABELS = list(map(str, Relevance))
_ID = re.compile(r"[A-Za-z0-9_.:-]+")
_DIGITS = re.compile(r"[0-9]*+-[0-9-]*")
_RANGE = re.compile(r"([0-9]{1,6})-([0-9]{1,6})")
_MAX_RANGE = 1000
"""Ids that a range may stand for; a longer one is a mistake."""
_FORMS = 'should be ["2", "5"], "2,5", "" or a range "19-25"'


@without_suppressed_causes
def load_key(source: CaseSource) -> KeyFile:
    """Read an ArchEHR-QA key, of 2025 or 2026, in the file's order.

    Labels and answers are empty where a release withholds them. `check_key_matches` compares a key
    with its cases. Raises `InputError` with every mistake of the file.
    """
    opened = read_source(source)
    content = opened.content
    if not isinstance(content, JsonContent):
        raise InputError(
            opened.path,
            [f": a key is JSON; this file is {content.format.upper()}."],
            _FIX,
        )
    mistakes = FileErrors(opened.path, _FIX)
    nodes = content.entries(mistakes)
    if nodes and not content.fields & set(_KEY_FIELDS):
        mistakes.add(
            "", f"no entry has any of {', '.join(_KEY_FIELDS)}: this is no key."
        )
    keys: dict[str, CaseKey] = {}
    for node in nodes:
        node.expect(("case_id", *_KEY_FIELDS))
        key = CaseKey(
            case_id=node.required("case_id"),
            labels=_labels(node.rows("answers")),
            clinician_answer=node.text("clinician_answer"),
            clinician_answer_without_citations=node.text(
                "clinician_answer_without_citations"
            ),
            clinician_answer_sentences=_sentences(
                node.rows("clinician_answer_sentences")
            ),
            review=_review(node),
        )
        if key.case_id in keys and key.case_id:
            node.add_error("case_id", "stands in an earlier entry too; keep one.")
        keys.setdefault(key.case_id, key)
    mistakes.raise_if_any()
    return KeyFile(Path(opened.path), opened.sha256, keys)


def find_key(case_path: str | Path) -> Path | None:
    """The key next to a case file: `<stem>_key.json`, else `archehr-qa_key.json`, else None."""
    path = resolve_path(case_path)
    if not path.name:
        return None
    for name in (f"{path.stem}_key.json", "archehr-qa_key.json"):
        key = path.with_name(name)
        if key.is_file():
            return key
    return None


def check_key_matches(cases: Iterable[Case], keys: Mapping[str, CaseKey]) -> list[str]:
    """Warnings, one sentence each, about mismatches that distort scores; empty if there are none."""
    without_key = []
    without_case = dict.fromkeys(keys)
    mismatches = []
    for case in cases:
        if case.id not in keys:
            without_key.append(printable(case.id))
            continue
        without_case.pop(case.id, None)
        for mismatch in _mismatches(case, keys[case.id]):
            mismatches.append(f"case {printable(case.id)}: {mismatch}")
    warnings = []
    if len(without_key) == 1:
        warnings.append(f"case {without_key[0]} has no key: it will not be scored.")
    elif without_key:
        count = f"{len(without_key)} cases have no key"
        warnings.append(f"{count} and will not be scored: {list_ids(without_key)}.")
    if len(without_case) == 1:
        [case_id] = map(printable, without_case)
        warnings.append(
            f"the key has a case {case_id} that the file has not: it will score as unanswered."
        )
    elif without_case:
        count = f"the key has {len(without_case)} cases that the file has not"
        ids = list_ids(list(map(printable, without_case)))
        warnings.append(f"{count}, which will score as unanswered: {ids}.")
    return [*warnings, *mismatches]


def _mismatches(case: Case, key: CaseKey) -> Iterator[str]:
    note_ids = set(case.sentence_ids)
    cited_ids: set[str] = set()
    for sentence in key.clinician_answer_sentences:
        cited_ids.update(sentence.citations)
    if unknown := _list_ids(key.labels.keys() - note_ids):
        yield f"the key labels {unknown}, which the note has not."
    if unknown := _list_ids(cited_ids - note_ids):
        yield f"the clinician's answer cites {unknown}, which the note has not."
    if not key.labels:
        return
    if unlabelled := _list_ids(note_ids - key.labels.keys()):
        yield f"the key has no label for {unlabelled}."
    if not key.essential:
        yield "the key holds no sentence essential: its recall is 0 whatever is cited."


def _list_ids(ids: set[str]) -> str:
    by_length = sorted(ids, key=lambda sentence_id: (len(sentence_id), sentence_id))
    return list_ids(list(map(printable, by_length)))


def _review(node: JsonNode) -> KeyReview | None:
    """What a row says of its reviews; None where its labels do not come from reviews."""
    value = node.value("review")
    if not isinstance(value, Mapping):
        return None
    reviewers = _names(value.get("reviewers"))
    if not reviewers:
        node.add_error(
            "review", "names no reviewers; write the key of the reviews anew."
        )
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


def _labels(rows: Iterable[JsonNode]) -> dict[str, Relevance]:
    labels: dict[str, Relevance] = {}
    for row in rows:
        row.expect(("sentence_id", "relevance"))
        sentence_id = row.required("sentence_id")
        text = row.required("relevance")
        label = (
            Relevance.NOT_RELEVANT
        )  # Stands in for an unknown label: the file is refused.
        if text in _LABELS:
            label = Relevance(text)
        elif text:
            similar = near_misses(text, _LABELS)
            advice = f"write one of {', '.join(_LABELS)}."
            if similar:
                advice = f"did you mean {similar[0]}?"
            row.add_error("relevance", f"'{printable(text)}' is no label; {advice}")
        if sentence_id and sentence_id in labels:
            row.add_error(
                "sentence_id",
                f"'{printable(sentence_id)}' is labelled twice; keep one label.",
            )
        labels.setdefault(sentence_id, label)
    return labels


def _sentences(rows: Iterable[JsonNode]) -> tuple[ClinicianSentence, ...]:
    """The sentences of the clinician's answer."""
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
    """The cited ids without repetition, in the key's order; none when a test release withholds them.

    `19-25` stands for seven ids.
    """
    value = row.value("citations")
    if isinstance(value, str):
        value = value.split(",") if value.strip() else []
    if not are_texts(value):
        if "citations" in row:
            row.add_error("citations", f"{_FORMS}.")
        return ()
    ids: list[str] = []
    for piece in map(str.strip, value):
        bounds = _RANGE.fullmatch(piece)
        start, end = (int(bounds[1]), int(bounds[2])) if bounds else (0, 0)
        if bounds and start <= end < start + _MAX_RANGE:
            ids.extend(map(str, range(start, end + 1)))
        elif _ID.fullmatch(piece) and not _DIGITS.fullmatch(piece):
            ids.append(piece)
        else:
            row.add_error(
                "citations",
                f"{_FORMS}; '{printable(piece)}' is neither an id nor a range.",
            )
    return tuple(dict.fromkeys(ids))
