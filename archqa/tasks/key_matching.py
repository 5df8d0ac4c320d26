"""Do a case file and a key belong together?"""

from collections.abc import Iterable, Iterator, Mapping

from archqa.core.case import Case
from archqa.core.key import CaseKey
from archqa.tasks.files.mistakes import printable


def check_key_matches(cases: Iterable[Case], keys: Mapping[str, CaseKey]) -> list[str]:
    """Warnings, one sentence each, about what would make scores mean less than they seem to; empty if all fits."""
    by_id = {case.id: case for case in cases}
    warnings = [
        f"case {printable(each)} has no key: it will not be scored."
        for each in by_id
        if each not in keys
    ]
    warnings += [
        f"the key has a case {printable(each)} that the file has not: it will score as unanswered."
        for each in keys
        if each not in by_id
    ]
    for case_id in (each for each in by_id if each in keys):
        warnings += [
            f"case {printable(case_id)}: {what}"
            for what in _differences(by_id[case_id], keys[case_id])
        ]
    return warnings


def _differences(case: Case, key: CaseKey) -> Iterator[str]:
    note = set(case.sentence_ids)
    cited = {each for sentence in key.clinician_answer_sentences for each in sentence.citations}
    if unknown := _listed(key.labels.keys() - note):
        yield f"the key labels {unknown}, which the note has not."
    if unknown := _listed(cited - note):
        yield f"the clinician's answer cites {unknown}, which the note has not."
    if key.labels and (bare := _listed(note - key.labels.keys())):
        yield f"the key has no label for {bare}."
    if key.labels and not key.essential:
        yield "the key holds no sentence essential: its recall is 0 whatever is cited."


def _listed(ids: set[str]) -> str:
    short = [printable(each) for each in sorted(ids, key=lambda each: (len(each), each))]
    more = f" and {len(short) - 5} more" if len(short) > 5 else ""
    return ", ".join(short[:5]) + more
