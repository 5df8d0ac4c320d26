"""Adds the clinician's answers of a key to the cases of subtask 4, without their citations."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from archqa.core.case import Case, Phrase
from archqa.core.id_lists import list_ids
from archqa.core.key import CaseKey, ClinicianSentence
from archqa.errors import CallerError
from archqa.tasks.archehr_2026 import EVIDENCE_ALIGNMENT
from archqa.tasks.case_files import find_key, load_key
from archqa.tasks.task import CaseFile


def with_clinician_answers(file: CaseFile, key: Path | None) -> CaseFile:
    """The case file with an answer to link in every case.

    A case without an answer of its own gets the one in `key`, else in the key next to the case file.
    Files of other tasks are returned as they are. Raises `CallerError` if a case has no answer anywhere,
    `InputError` for a malformed key.
    """
    if file.task != EVIDENCE_ALIGNMENT:
        return file
    unanswered = _without_answer(file.notes)
    if key is None and unanswered and str(file.path) != "-":
        key = find_key(file.path)
    if unanswered and key is None:
        raise CallerError(
            f"{len(unanswered)} cases have no answer to link.\n"
            "Name a key that holds the answers with --key FILE."
        )
    keys = load_key(key).keys if key else {}
    answered = tuple(_with_answer(case, keys.get(case.id)) for case in file.notes)
    unanswered = _without_answer(answered)
    if unanswered:
        raise CallerError(
            f"{key} has no answer for case {list_ids(unanswered)}.\n"
            "Name another key with --key FILE."
        )
    return replace(file, cases=answered)


def clinician_sentences(key: CaseKey) -> tuple[ClinicianSentence, ...]:
    """The sentences of the clinician's answer; where a key has none, its lines with their `|ids|` are.

    Their text is as the clinician wrote it; scores are computed on lines that the official scorer
    parsed (`archqa.tasks.archehr_2026.scoring`).
    """
    if key.clinician_answer_sentences:
        return key.clinician_answer_sentences
    sentences: list[ClinicianSentence] = []
    for line in key.clinician_answer.splitlines():
        if line.strip():
            number = len(sentences) + 1
            sentences.append(_sentence(str(number), line.strip()))
    return tuple(sentences)


def _without_answer(cases: Sequence[Case]) -> list[str]:
    """Ids of the cases without an answer."""
    return [case.id for case in cases if not case.answer_sentences]


def _with_answer(case: Case, key: CaseKey | None) -> Case:
    if case.answer_sentences or key is None:
        return case
    phrases = []
    for sentence in clinician_sentences(key):
        phrases.append(Phrase(id=sentence.id, text=sentence.text))
    return case.model_copy(update={"answer_sentences": tuple(phrases)})


def _sentence(number: str, line: str) -> ClinicianSentence:
    parts: Sequence[str] = line.rsplit("|", maxsplit=2)
    if len(parts) < 3:
        return ClinicianSentence(id=number, text=line)
    text, citations, _ = parts
    ids = [citation.strip() for citation in citations.split(",")]
    return ClinicianSentence(
        id=number,
        text=text.strip(),
        citations=tuple(filter(None, ids)),
    )
