"""The gold of ArchEHR-QA 2026: four subtasks, each with its own part of case file and key.

Keys without `clinician_answer_sentences` (ours, and those of 2025) have them as lines of `clinician_answer` that end in
`|ids|`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from archqa import tasks
from archqa.core.case import Case
from archqa.core.key import CaseKey, ClinicianSentence
from archqa.errors import CallerError, InputError
from archqa.evaluation.references import (
    Gold,
    KeySelection,
    ScoringInputs,
    check_second_key_sentences,
    resolve_key,
    resolve_second_key,
)
from archqa.tasks.files.mistakes import printable
from archqa.tasks.files.source import read_source
from scoring.submission import parse_answer
from scoring.tasks.archehr2026 import Reference, Subtask, parse_citations


def load_gold(files: ScoringInputs, subtask: Subtask) -> Gold[Reference]:
    """One subtask of ArchEHR-QA 2026. Subtask 1 is scored against the case file, which may be given as the key.

    Raises `CallerError` where a file is needed that was not named, `InputError` for files that are malformed or do not
    belong together.
    """
    if subtask == 1:
        return _questions_2026(files)
    data = files.case_file or (_data_beside(files.key) if files.key else None)
    first, second = resolve_key(files, data), resolve_second_key(files, data)
    if data is None and subtask != 2:
        raise CallerError(
            f"Subtask {subtask} is scored with the notes at hand.\nName the case file with --data FILE."
        )
    cases, sha256 = files.cases(data) if data else ((), "")
    chosen = files.choose(first.keys)
    if data:
        _refuse_absent(data, cases, chosen)
    fingerprints = {"key": first.sha256} | ({"data": sha256} if data else {})
    fingerprints |= {"second_key": second.sha256} if second else {}
    references, seconds = (
        _references_2026(cases, key.keys if key else {}, chosen) for key in (first, second)
    )
    check_second_key_sentences(second, references, seconds)
    return Gold(references, seconds, fingerprints, chosen)


def clinician_sentences(key: CaseKey) -> tuple[ClinicianSentence, ...]:
    """The sentences of the clinician's answer; where a key has none, its lines with their `|ids|` are."""
    if key.clinician_answer_sentences:
        return key.clinician_answer_sentences
    lines = parse_answer(key.case_id, key.clinician_answer).lines
    return tuple(
        ClinicianSentence(id=str(place), text=line.text, citations=parse_citations(line.citations))
        for place, line in enumerate(lines, 1)
    )


def _questions_2026(files: ScoringInputs) -> Gold[Reference]:
    path = files.case_file or files.key
    if path is None or not (
        files.run or tasks.find("archehr-2025").recognises(read_source(path).content)
    ):
        raise CallerError(
            "Subtask 1 is scored against the clinicians' questions, which the case file holds.\n"
            "Name that file with --data FILE (or as the organisers do, with --key FILE)."
        )
    cases, sha256 = files.cases(path)
    chosen = files.choose(case.id for case in cases)
    keys = {case_id: CaseKey(case_id=case_id) for case_id in chosen.ids}
    fingerprints = {"data" if files.case_file else "key": sha256}
    return Gold(_references_2026(cases, keys, chosen), [], fingerprints, chosen)


def _references_2026(
    cases: Sequence[Case], keys: Mapping[str, CaseKey], chosen: KeySelection
) -> list[Reference]:
    by_id = {case.id: case for case in cases}
    answers = {case_id: clinician_sentences(key) for case_id, key in keys.items()}
    # Keys of test releases hold the sentences without citations: no gold, which is not the same as none cited.
    released = any(sentence.citations for sentences in answers.values() for sentence in sentences)
    return [
        _reference_2026(
            by_id.get(case_id, Case(id=case_id)), keys[case_id], answers[case_id], released=released
        )
        for case_id in chosen.ids
        if case_id in keys
    ]


def _reference_2026(
    case: Case, key: CaseKey, sentences: Sequence[ClinicianSentence], *, released: bool
) -> Reference:
    return Reference(
        case_id=case.id,
        sentences=case.text_of,
        labels={each: label.value for each, label in key.labels.items()},
        narrative=case.patient_narrative,
        clinician_question=case.clinician_question,
        clinician_answer=key.clinician_answer_without_citations
        or " ".join(each.text for each in sentences),
        citations={each.id: each.citations for each in sentences} if released else {},
    )


def _data_beside(key: Path) -> Path | None:
    """The case file that a key lies beside, as `find_key` would find the key from there."""
    if not key.stem.endswith("_key"):
        return None
    beside = (
        key.with_name(f"{key.stem.removesuffix('_key')}{suffix}") for suffix in (".json", ".xml")
    )
    return next((path for path in beside if path.is_file()), None)


def _refuse_absent(data: Path, cases: Sequence[Case], chosen: KeySelection) -> None:
    there = {case.id for case in cases}
    if absent := [case_id for case_id in chosen.ids if case_id not in there]:
        lines = [f": has no case {printable(case_id)}, which the key has." for case_id in absent]
        raise InputError(
            data,
            lines,
            "Name the case file that belongs to the key, or choose cases with --case-ids.",
        )
