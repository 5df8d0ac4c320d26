"""Read the organisers' files: ArchEHR-QA XML, key JSON and submission JSON.

Every function that reads raises ScoringError with the name of the file and its mistakes.
"""

from __future__ import annotations

import hashlib
import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import ScoringError
from .id_lists import list_ids
from .tasks import archehr2025, archehr2026

LABELS = frozenset({"essential", "supplementary", "not-relevant"})

KeyRow = Mapping[str, Any]


def fingerprint(path: Path) -> str:
    """The SHA-256 of a file, which identifies its version."""
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
    """The cases of an ArchEHR-QA XML with the key's labels; a case without key has no labels."""
    rows = _read_key(key)
    references = []
    for case_id, case in _read_cases(data).items():
        row = rows.get(case_id, {})
        references.append(_reference_2025(key, case_id, case, row))
    return references


def load_references_2026(data: Path | None, key: Path) -> list[archehr2026.Reference]:
    """The cases of a 2026 key, or of an XML file as the key (subtask 1)."""
    if key.suffix == ".xml":
        cases: dict[str, ElementTree.Element] = _read_cases(key)
        rows: dict[str, KeyRow] = {case_id: {} for case_id in cases}
    else:
        cases = _read_cases(data) if data else {}
        rows = _read_key(key)
    references = []
    for case_id, row in rows.items():
        case = cases.get(case_id)
        references.append(_reference_2026(key, case_id, case, row))
    return references


def parse_case_range(pieces: Sequence[str]) -> list[str]:
    """The ids that `121-167 5 7-9` names."""
    case_ids: list[str] = []
    for piece in pieces:
        case_ids.extend(archehr2026.parse_citations(piece))
    return case_ids


def _reference_2025(
    key: Path,
    case_id: str,
    case: ElementTree.Element,
    row: KeyRow,
) -> archehr2025.Reference:
    phrases = [_stripped(phrase) for phrase in case.findall("patient_question/phrase")]
    return archehr2025.Reference(
        case_id,
        question=" ".join(phrases),
        sentences=_sentences(case),
        labels=_labels(key, row),
        narrative=_text(case, "patient_narrative"),
        clinician_question=_text(case, "clinician_question"),
        clinician_answer=str(row.get("clinician_answer", "")),
    )


def _reference_2026(
    key: Path,
    case_id: str,
    case: ElementTree.Element | None,
    row: KeyRow,
) -> archehr2026.Reference:
    return archehr2026.Reference(
        case_id,
        sentences=_sentences(case),
        labels=_labels(key, row),
        narrative=_text(case, "patient_narrative"),
        clinician_question=_text(case, "clinician_question"),
        clinician_answer=str(row.get("clinician_answer_without_citations", "")),
        citations=_citations(row),
        answer_sentences=_answer_sentences(row),
    )


def _citations(row: KeyRow) -> dict[str, tuple[str, ...]]:
    """Answer sentence id → note sentence ids.

    Empty if no sentence has a `citations` field, as in the keys of test sets: these have no gold.
    """
    sentences = row.get("clinician_answer_sentences", [])
    if not any("citations" in sentence for sentence in sentences):
        return {}
    citations = {}
    for sentence in sentences:
        sentence_id = str(sentence["id"])
        citations[sentence_id] = archehr2026.parse_citations(sentence.get("citations", []))
    return citations


def _answer_sentences(row: KeyRow) -> dict[str, str]:
    """Answer sentence id → its text."""
    sentences = row.get("clinician_answer_sentences", [])
    return {str(sentence["id"]): str(sentence.get("text", "")) for sentence in sentences}


def _read_cases(path: Path) -> dict[str, ElementTree.Element]:
    try:
        text = path.read_text(encoding="utf-8")
        _refuse_entities(path, text)
        root = ElementTree.fromstring(text)
    except OSError as error:
        raise ScoringError(f"{path}: {error.strerror}.") from error
    except (ElementTree.ParseError, UnicodeDecodeError) as error:
        raise ScoringError(f"{path}: not XML ({error}).") from error
    return {case.get("id", ""): case for case in root.findall("case")}


def _refuse_entities(path: Path, text: str) -> None:
    """Refuse entity declarations, with which a small file can expand to gigabytes."""
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        problem = "has a document type declaration, which ArchEHR-QA files do not"
        raise ScoringError(f"{path}: {problem}; remove it.")


def _read_key(path: Path) -> dict[str, KeyRow]:
    rows = read_json(path)
    if not isinstance(rows, list) or not all(_is_key_row(row) for row in rows):
        raise ScoringError(f"{path}: a key is a list of objects with a case_id.")
    return {str(row["case_id"]): row for row in rows}


def _is_key_row(row: object) -> bool:
    return isinstance(row, dict) and "case_id" in row


def _labels(path: Path, row: KeyRow) -> dict[str, str]:
    """Sentence id → label, as in the key."""
    labels = {}
    for answer in row.get("answers", []):
        sentence_id = str(answer.get("sentence_id"))
        labels[sentence_id] = answer.get("relevance", "")
    unknown = set(map(str, labels.values())) - LABELS
    if unknown:
        problem = f"case {row['case_id']} has the labels {list_ids(sorted(unknown))}"
        choices = ", ".join(sorted(LABELS))
        raise ScoringError(f"{path}: {problem}; the task's are {choices}.")
    return labels


def _sentences(case: ElementTree.Element | None) -> dict[str, str]:
    if case is None:
        return {}
    # Not all <sentence> elements: 2026 files also have sentences of answers.
    elements = case.findall("note_excerpt_sentences/sentence")
    return {element.get("id", ""): _stripped(element) for element in elements}


def _text(case: ElementTree.Element | None, tag: str) -> str:
    if case is None:
        return ""
    return (case.findtext(tag) or "").strip()


def _stripped(element: ElementTree.Element) -> str:
    return (element.text or "").strip()
