"""Adds the clinician's answers of a key to the cases of subtask 4, without their citations."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from archqa.core.case import Case, Phrase
from archqa.core.key import CaseKey, ClinicianSentence
from archqa.errors import CallerError
from archqa.tasks.archehr_2026 import EVIDENCE_ALIGNMENT
from archqa.tasks.case_files import find_key, load_key
from archqa.tasks.task import CaseFile


def with_clinician_answers(file: CaseFile, key: Path | None) -> CaseFile:
    """The case file with an answer to link in every case: its own, else the one in `key`, else in the key beside it.

    Raises `CallerError` if a case has none anywhere, `InputError` for a malformed key. Files of other tasks pass.
    """
    if file.task != EVIDENCE_ALIGNMENT:
        return file
    cases = file.notes
    unanswered = [case.id for case in cases if not case.answer_sentences]
    if key is None and unanswered and str(file.path) != "-":
        key = find_key(file.path)
    if unanswered and key is None:
        raise CallerError(
            f"{len(unanswered)} cases have no answer to link.\nName a key that holds the answers with --key FILE."
        )
    keys = load_key(key).keys if key else {}
    answered = tuple(_with_answer(case, keys.get(case.id)) for case in cases)
    without_answer = [case.id for case in answered if not case.answer_sentences]
    if without_answer:
        raise CallerError(
            f"{key} has no answer for case {', '.join(without_answer[:5])}.\nName another key with --key FILE."
        )
    return replace(file, cases=answered)


def clinician_sentences(key: CaseKey) -> tuple[ClinicianSentence, ...]:
    """The sentences of the clinician's answer; where a key has none, its lines with their `|ids|` are."""
    if key.clinician_answer_sentences:
        return key.clinician_answer_sentences
    lines = [line.strip() for line in key.clinician_answer.splitlines() if line.strip()]
    return tuple(_sentence(str(place), line) for place, line in enumerate(lines, start=1))


def _with_answer(case: Case, key: CaseKey | None) -> Case:
    if case.answer_sentences or key is None:
        return case
    sentences = clinician_sentences(key)
    return case.model_copy(
        update={"answer_sentences": tuple(Phrase(id=each.id, text=each.text) for each in sentences)}
    )


def _sentence(number: str, line: str) -> ClinicianSentence:
    parts: Sequence[str] = line.rsplit("|", maxsplit=2)
    if len(parts) < 3:
        return ClinicianSentence(id=number, text=line)
    ids = tuple(each.strip() for each in parts[1].split(",") if each.strip())
    return ClinicianSentence(id=number, text=parts[0].strip(), citations=ids)
