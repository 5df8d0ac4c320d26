"""The organisers' files: ArchEHR-QA XML, key JSON and submission JSON, read into references; and their fingerprints.

Every reader raises ScoringError that names the file and lists what is wrong with it.
"""

from __future__ import annotations

import hashlib
import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import ScoringError
from .tasks import archehr2025, archehr2026

LABELS = frozenset({"essential", "supplementary", "not-relevant"})


def fingerprint(path: Path) -> str:
    """The SHA-256 of a file, by which data versions are told apart."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_json(path: Path) -> Any:
    """The value in a JSON file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ScoringError(f"{path}: {error.strerror}.") from error
    except ValueError as error:
        raise ScoringError(f"{path}: not JSON ({error}).") from error


def load_references_2025(data: Path, key: Path) -> list[archehr2025.Reference]:
    """The cases of an ArchEHR-QA XML with the labels of its key; a case that the key lacks has none."""
    rows = _rows(key)
    return [
        archehr2025.Reference(
            case_id,
            " ".join(_texts(case, "patient_question/phrase")),
            _sentences(case),
            _labels(key, rows.get(case_id, {})),
            _text(case, "patient_narrative"),
            _text(case, "clinician_question"),
            str(rows.get(case_id, {}).get("clinician_answer", "")),
        )
        for case_id, case in _cases(data).items()
    ]


def load_references_2026(
    data: Path | None, key: Path, wanted: Sequence[str] = ()
) -> list[archehr2026.Reference]:
    """The cases of a 2026 key, or of an XML given as the key (subtask 1), only those in `wanted` if any."""
    key_is_data = key.suffix == ".xml"
    cases = _cases(key if key_is_data else data) if key_is_data or data else {}
    rows = {} if key_is_data else _rows(key)
    ids = [
        case_id for case_id in (cases if key_is_data else rows) if not wanted or case_id in wanted
    ]
    return [
        _reference_2026(key, case_id, cases.get(case_id), rows.get(case_id, {})) for case_id in ids
    ]


def parse_case_range(pieces: Sequence[str]) -> list[str]:
    """The ids that `121-167 5 7-9` names."""
    return [case_id for piece in pieces for case_id in archehr2026.parse_citations(piece)]


def _reference_2026(
    key: Path, case_id: str, case: ElementTree.Element | None, row: Mapping[str, Any]
) -> archehr2026.Reference:
    answer_sentences = row.get("clinician_answer_sentences", [])
    # Keys of test sets have the sentences without citations, which is no gold and not an empty one.
    cited = any("citations" in sentence for sentence in answer_sentences)
    return archehr2026.Reference(
        case_id,
        sentences=_sentences(case),
        labels=_labels(key, row),
        narrative=_text(case, "patient_narrative"),
        clinician_question=_text(case, "clinician_question"),
        clinician_answer=str(row.get("clinician_answer_without_citations", "")),
        citations={
            str(sentence["id"]): archehr2026.parse_citations(sentence.get("citations", []))
            for sentence in answer_sentences
            if cited
        },
    )


def _cases(path: Path | None) -> dict[str, ElementTree.Element]:
    if path is None:
        return {}
    try:
        text = path.read_text(encoding="utf-8")
        # No ArchEHR-QA file declares entities; a file that does can make the parser write gigabytes.
        if "<!DOCTYPE" in text or "<!ENTITY" in text:
            raise ScoringError(
                f"{path}: has a document type declaration, which ArchEHR-QA files do not; remove it."
            )
        root = ElementTree.fromstring(text)
    except OSError as error:
        raise ScoringError(f"{path}: {error.strerror}.") from error
    except (ElementTree.ParseError, UnicodeDecodeError) as error:
        raise ScoringError(f"{path}: not XML ({error}).") from error
    return {case.get("id", ""): case for case in root.findall("case")}


def _rows(path: Path) -> dict[str, Mapping[str, Any]]:
    rows = read_json(path)
    if not isinstance(rows, list) or not all(
        isinstance(row, dict) and "case_id" in row for row in rows
    ):
        raise ScoringError(f"{path}: a key is a list of objects with a case_id.")
    return {str(row["case_id"]): row for row in rows}


def _labels(path: Path, row: Mapping[str, Any]) -> dict[str, str]:
    labels = {
        str(answer.get("sentence_id")): answer.get("relevance", "")
        for answer in row.get("answers", [])
    }
    if unknown := sorted({str(label) for label in labels.values()} - LABELS):
        words = f"case {row['case_id']} has the labels {', '.join(unknown)}"
        raise ScoringError(f"{path}: {words}; the task's are {', '.join(sorted(LABELS))}.")
    return labels


def _sentences(case: ElementTree.Element | None) -> dict[str, str]:
    # Never all <sentence> elements: 2026 files have answer sentences too.
    found = [] if case is None else case.findall("note_excerpt_sentences/sentence")
    return {sentence.get("id", ""): (sentence.text or "").strip() for sentence in found}


def _text(case: ElementTree.Element | None, tag: str) -> str:
    return "" if case is None else (case.findtext(tag) or "").strip()


def _texts(case: ElementTree.Element, path: str) -> list[str]:
    return [(found.text or "").strip() for found in case.findall(path)]
