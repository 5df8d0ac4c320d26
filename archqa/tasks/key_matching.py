"""Checks whether a case file and a key belong together."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from archqa.core.case import Case
from archqa.core.id_lists import list_ids
from archqa.core.key import CaseKey
from archqa.tasks.files.mistakes import printable


def check_key_matches(cases: Iterable[Case], keys: Mapping[str, CaseKey]) -> list[str]:
    """Warnings, one sentence each, about mismatches that distort scores; empty if there are none."""
    by_id = {case.id: case for case in cases}
    without_key = [printable(case_id) for case_id in by_id if case_id not in keys]
    without_case = [printable(case_id) for case_id in keys if case_id not in by_id]
    warnings = [*_without_key(without_key), *_without_case(without_case)]
    for case_id, case in by_id.items():
        if case_id in keys:
            for mismatch in _mismatches(case, keys[case_id]):
                warnings.append(f"case {printable(case_id)}: {mismatch}")
    return warnings


def _without_key(case_ids: Sequence[str]) -> Iterator[str]:
    if len(case_ids) == 1:
        yield f"case {case_ids[0]} has no key: it will not be scored."
    elif case_ids:
        yield f"{len(case_ids)} cases have no key and will not be scored: {list_ids(case_ids)}."


def _without_case(case_ids: Sequence[str]) -> Iterator[str]:
    if len(case_ids) == 1:
        yield (
            f"the key has a case {case_ids[0]} that the file has not: it will score as unanswered."
        )
    elif case_ids:
        count = f"the key has {len(case_ids)} cases that the file has not"
        yield f"{count}, which will score as unanswered: {list_ids(case_ids)}."


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
