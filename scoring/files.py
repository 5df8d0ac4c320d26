"""Read the organisers' files: ArchEHR-QA XML, key JSON and submission JSON.

Every function that reads raises ScoringError with the name of the file and its mistakes.
"""

import hashlib
import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import ScoringError, list_ids
from .tasks import archehr2025, archehr2026

LABELS = frozenset({"essential", "supplementary", "not-relevant"})

KeyRow = Mapping[str, Any]


def fingerprint(path: Path) -> str:
    """The SHA-256 of a file, which identifies its version."""
    content = path.read_bytes()
    return hashlib.sha256(content).hexdigest()


def read_json(path: Path) -> Any:
    """The value in a JSON file."""
    try:
        text = path.read_text(encoding="utf-8")
        return json.loads(text)
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
        phrases = []
        for phrase in case.findall("patient_question/phrase"):
            phrases.append(_stripped(phrase.text))
        reference = archehr2025.Reference(
            case_id,
            question=" ".join(phrases),
            sentences=_sentences(case),
            labels=_labels(key, row),
            narrative=_stripped(case.findtext("patient_narrative")),
            clinician_question=_stripped(case.findtext("clinician_question")),
            clinician_answer=str(row.get("clinician_answer", "")),
        )
        references.append(reference)
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
        case = cases.get(case_id, ElementTree.Element("case"))
        labels = _labels(key, row)
        answer_sentences = {}
        citations = {}
        has_citations = False
        for sentence in row.get("clinician_answer_sentences", []):
            sentence_id = str(sentence["id"])
            answer_sentences[sentence_id] = str(sentence.get("text", ""))
            cited = sentence.get("citations", [])
            citations[sentence_id] = archehr2026.parse_citations(cited)
            has_citations = has_citations or "citations" in sentence
        # Where no sentence has the field, as in the keys of test sets, there is no gold.
        if not has_citations:
            citations = {}
        reference = archehr2026.Reference(
            case_id,
            sentences=_sentences(case),
            labels=labels,
            narrative=_stripped(case.findtext("patient_narrative")),
            clinician_question=_stripped(case.findtext("clinician_question")),
            clinician_answer=str(row.get("clinician_answer_without_citations", "")),
            citations=citations,
            answer_sentences=answer_sentences,
        )
        references.append(reference)
    return references


def parse_case_range(pieces: Sequence[str]) -> list[str]:
    """The ids that `121-167 5 7-9` names."""
    case_ids: list[str] = []
    for piece in pieces:
        case_ids.extend(archehr2026.parse_citations(piece))
    return case_ids


def _read_cases(path: Path) -> dict[str, ElementTree.Element]:
    """Case id → its element."""
    try:
        text = path.read_text(encoding="utf-8")
        # With entities a small file can expand to gigabytes.
        if "<!DOCTYPE" in text or "<!ENTITY" in text:
            problem = "has a document type declaration, which ArchEHR-QA files do not"
            raise ScoringError(f"{path}: {problem}; remove it.")
        root = ElementTree.fromstring(text)
    except OSError as error:
        raise ScoringError(f"{path}: {error.strerror}.") from error
    except (ElementTree.ParseError, UnicodeDecodeError) as error:
        raise ScoringError(f"{path}: not XML ({error}).") from error
    cases = {}
    for case in root.findall("case"):
        cases[case.get("id", "")] = case
    return cases


def _read_key(path: Path) -> dict[str, KeyRow]:
    """Case id → its row."""
    problem = f"{path}: a key is a list of objects with a case_id."
    rows = read_json(path)
    if not isinstance(rows, list):
        raise ScoringError(problem)
    key: dict[str, KeyRow] = {}
    for row in rows:
        if not isinstance(row, dict) or "case_id" not in row:
            raise ScoringError(problem)
        key[str(row["case_id"])] = row
    return key


def _labels(path: Path, row: KeyRow) -> dict[str, str]:
    """Sentence id → label, as in the key."""
    labels = {}
    for answer in row.get("answers", []):
        sentence_id = str(answer.get("sentence_id"))
        labels[sentence_id] = answer.get("relevance", "")
    unknown = set(map(str, labels.values())) - LABELS
    if unknown:
        listed = list_ids(sorted(unknown))
        problem = f"case {row['case_id']} has the labels {listed}"
        choices = ", ".join(sorted(LABELS))
        raise ScoringError(f"{path}: {problem}; the task's are {choices}.")
    return labels


def _sentences(case: ElementTree.Element) -> dict[str, str]:
    """Sentence id of the note → text."""
    sentences = {}
    # Not all <sentence> elements: 2026 files also have sentences of answers.
    for element in case.findall("note_excerpt_sentences/sentence"):
        sentences[element.get("id", "")] = _stripped(element.text)
    return sentences


def _stripped(text: str | None) -> str:
    return (text or "").strip()
