"""What is held to be true, as the rulers take it: case files, keys and question files become references."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from archqa import tasks
from archqa.core.case import Case
from archqa.core.key import CaseKey
from archqa.errors import CallerError, InputError
from archqa.runs.run import Run
from archqa.tasks.fhir_agentbench.cases import FhirQuestion, load_questions
from archqa.tasks.files.json_node import JsonContent
from archqa.tasks.files.mistakes import FileErrors, printable
from archqa.tasks.files.source import Source, read_source
from archqa.tasks.medagentbench.grading import load_tasks
from scoring.tasks import archehr2025, archehr2026, fhir_agentbench, medagentbench_transcript

Reference = TypeVar("Reference")
_Labelled = archehr2025.Reference | archehr2026.Reference

_RANGE = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")


class Gold(NamedTuple, Generic[Reference]):
    """The references to score against, a second reader's where there is one, and the SHA-256 of what was read."""

    references: list[Reference]
    second: list[Reference]
    fingerprints: dict[str, str]
    chosen: "KeySelection"


class KeySelection(NamedTuple):
    """The ids of the key that count, those that were left out on purpose, and what to warn of."""

    ids: list[str]
    left_out: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()


class ScoringInputs(NamedTuple):
    """What was named to score against. A run knows its own data, which stands in where `data` is None.

    `case_ids` are the words of `--case-ids`, as the organisers' flag takes them: `121-167 5 7-9`; `record` is a FHIR
    store or server.
    """

    key: Path | None = None
    data: Path | None = None
    second_key: Path | None = None
    case_ids: tuple[str, ...] = ()
    run: Run | None = None
    record: str | None = None

    @property
    def case_file(self) -> Path | None:
        """The case file that was named, else the run's."""
        return self.data or (Path(self.run.manifest.data.path) if self.run else None)

    def cases(self, path: Path) -> tuple[Sequence[Case], str]:
        """The cases of the file and its SHA-256: a run's own copy, once the file it read is gone or another."""
        if self.data is None and self.run is not None:
            read = self.run.manifest.data.sha256
            if not path.is_file() or read_source(path).sha256 != read:
                return tasks.load_cases(self.run.path / "input.jsonl", "archehr-2025").notes, read
        file = tasks.load_cases(path, "archehr-2025")
        return file.notes, file.sha256

    def choose(self, known: Iterable[str]) -> KeySelection:
        """Those of the key's ids that `--case-ids` names; all without it. Raises `CallerError` if it names none."""
        known = list(known)
        if not self.case_ids:
            return KeySelection(known)
        single = [piece for piece in self.case_ids if not _RANGE.fullmatch(piece)]
        ranges = [
            (int(found[1]), int(found[2]))
            for piece in self.case_ids
            if (found := _RANGE.fullmatch(piece))
        ]
        ids = [one for one in known if one in single or any(_within(one, *ends) for ends in ranges)]
        if not ids:
            raise CallerError(f"--case-ids {' '.join(self.case_ids)} names no case of the key.")
        unknown = [printable(piece) for piece in single if piece not in known]
        warnings = (f"--case-ids: the key has no case {', '.join(unknown)}.",) if unknown else ()
        return KeySelection(ids, frozenset(known) - set(ids), warnings)


def archehr_2025(files: ScoringInputs) -> Gold[archehr2025.Reference]:
    """ArchEHR-QA 2025: the cases of the file with the labels of their key, which may lie beside it.

    Raises `CallerError` without a case file or a key, `InputError` for malformed ones.
    """
    data = files.case_file
    if data is None:
        raise CallerError(
            "A submission file alone does not say which cases it answers.\nName them with --data FILE."
        )
    cases, sha256 = files.cases(data)
    first, second = resolve_key(files, data), resolve_second_key(files, data)
    chosen = files.choose(case.id for case in cases if case.id in first.keys)
    fingerprints = {"key": first.sha256, "data": sha256} | (
        {"second_key": second.sha256} if second else {}
    )
    references, seconds = (
        _references_2025(cases, key.keys if key else {}, chosen) for key in (first, second)
    )
    check_second_key_sentences(second, references, seconds)
    return Gold(references, seconds, fingerprints, chosen)


def fhir(files: ScoringInputs) -> Gold[FhirQuestion]:
    """The questions of FHIR-AgentBench with their gold. Raises `CallerError` if no file was named, `InputError`."""
    path = files.key or files.case_file
    if path is None:
        raise CallerError(
            "These answers are scored against the benchmark's questions.\nName their file with --key FILE."
        )
    file = load_questions(path)
    chosen = files.choose(each.question_id for each in file.questions)
    questions = [each for each in file.questions if each.question_id not in chosen.left_out]
    return Gold(questions, [], {"key": file.sha256}, chosen)


def to_scoring_question(question: FhirQuestion) -> fhir_agentbench.Question:
    """A question as its ruler takes it."""
    resources = {kind: list(ids) for kind, ids in question.true_fhir_ids.items()}
    return fhir_agentbench.Question(
        question.question_id, question.question, question.true_answer, resources, question.template
    )


def medagentbench(files: ScoringInputs) -> Gold[medagentbench_transcript.Task]:
    """MedAgentBench's tasks with what they are graded by. Raises `CallerError` if no file was named, `InputError`."""
    path = files.key or files.case_file
    if path is None:
        raise CallerError(
            "Rates are taken over the benchmark's tasks.\nName their file with --key FILE."
        )
    source = read_source(path)
    chosen = files.choose(_task_ids(source))
    tasks = [task for task in load_tasks(path) if task.id not in chosen.left_out]
    return Gold(tasks, [], {"key": source.sha256}, chosen)


def _task_ids(source: Source) -> list[str]:
    mistakes = FileErrors(
        source.path, 'A task file is [{"id": "task1_1", "instruction": …, "eval_MRN": …}, …].'
    )
    if not isinstance(source.content, JsonContent):
        raise InputError(source.path, [": is not JSON."], "Name MedAgentBench's task file.")
    rows = source.content.entries(mistakes)
    ids = [row.required("id") for row in rows]
    for at, (row, each) in enumerate(zip(rows, ids, strict=True)):
        if each and not re.fullmatch(r"task[0-9]+_[0-9]+", each):
            row.complain("id", "should read like task1_1.")
        elif each in ids[:at]:
            row.complain("id", f"'{printable(each)}' stands in an earlier task too; keep one.")
    mistakes.settle()
    return ids


def _references_2025(
    cases: Sequence[Case], keys: Mapping[str, CaseKey], chosen: KeySelection
) -> list[archehr2025.Reference]:
    return [
        archehr2025.Reference(
            case_id=case.id,
            question=case.patient_narrative,
            sentences=case.text_of,
            labels={each: label.value for each, label in keys[case.id].labels.items()},
            narrative=case.patient_narrative,
            clinician_question=case.clinician_question,
            clinician_answer=keys[case.id].clinician_answer,
        )
        for case in cases
        if case.id in keys and case.id not in chosen.left_out
    ]


def resolve_key(files: ScoringInputs, data: Path | None) -> tasks.KeyFile:
    """The key that was named, else the one beside the case file. Raises `CallerError`, `InputError`."""
    found = files.key or (tasks.find_key(data) if data else None)
    if found is None:
        where = f"There is no key beside {data}." if data else "There is nothing to score against."
        raise CallerError(f"{where}\nName it with --key FILE.")
    return tasks.load_key(found)


def resolve_second_key(files: ScoringInputs, data: Path | None) -> tasks.KeyFile | None:
    """A second reader's key: as named, else as it lies beside the case file. Raises `InputError`."""
    names = (f"{data.stem}_second_key.json", "second_annotation_key.json") if data else ()
    beside = (data.with_name(name) for name in names) if data else ()
    found = files.second_key or next((path for path in beside if path.is_file()), None)
    return tasks.load_key(found) if found else None


def check_second_key_sentences(
    second: tasks.KeyFile | None, first: Sequence[_Labelled], other: Sequence[_Labelled]
) -> None:
    """Raise `InputError` where a second key labels sentences that the case does not have."""
    known = {each.case_id: each.sentences.keys() | each.labels.keys() for each in first}
    lines = [
        f": case {printable(each.case_id)}: labels {printable(one)}, which the note has not."
        for each in other
        for one in each.labels
        if one not in known.get(each.case_id, {one})
    ]
    if second and lines:
        raise InputError(
            second.path, lines, "Name the second reader's key of these cases with --second-key."
        )


def _within(case_id: str, first: int, last: int) -> bool:
    return bool(re.fullmatch(r"[0-9]{1,18}", case_id)) and first <= int(case_id) <= last
