"""Every benchmark we know, found by name or by what a file holds."""

import difflib
from pathlib import Path

from archqa.core.answer import WORD_LIMIT
from archqa.errors import CallerError, InputError
from archqa.tasks.archehr_2025.cases import ArchehrQa
from archqa.tasks.archehr_2026.submission import SUBTASKS
from archqa.tasks.fhir_agentbench.cases import FhirAgentBench
from archqa.tasks.files.content import FORMAT_HINT
from archqa.tasks.files.json_lines import JSONL_SUFFIXES, open_jsonl
from archqa.tasks.files.parquet import PARQUET_SUFFIX, open_parquet
from archqa.tasks.files.source import Source, read_source, resolve_path
from archqa.tasks.medagentbench.cases import MedAgentBench
from archqa.tasks.task import CaseFile, CaseSource, KeyFile, Task

ARCHEHR_2025 = ArchehrQa("archehr-2025", "ArchEHR-QA 2025: cited answers", word_limit=WORD_LIMIT)

MEDAGENTBENCH = MedAgentBench(
    "medagentbench", "MedAgentBench", marks=frozenset({"instruction", "eval_MRN"})
)

_ALL = (
    ARCHEHR_2025,
    *SUBTASKS,
    FhirAgentBench(
        "fhir-agentbench", "FHIR-AgentBench", marks=frozenset({"question", "patient_fhir_id"})
    ),
    MEDAGENTBENCH,
)

_MISTAKEN = (
    (
        frozenset({"answers"}),
        "this looks like a key, not like cases.",
        "Name the case file here; give this one by --key.",
    ),
    (
        frozenset({"clinician_answer"}),
        "this looks like a key.",
        "Name the case file here; give this one by --key.",
    ),
    (
        frozenset({"case_id", "answer"}),
        "this looks like a submission.",
        "archqa score FILE --key KEY scores it.",
    ),
    (
        frozenset({"case_id", "prediction"}),
        "this looks like a submission.",
        "archqa score FILE --key KEY scores it.",
    ),
)


def names() -> tuple[str, ...]:
    """Names of all benchmarks, as `--task` takes them."""
    return tuple(each.name for each in _ALL)


def find(name: str) -> Task:
    """The benchmark of that name. Raises `CallerError` with the nearest name if there is none."""
    for each in _ALL:
        if each.name == name:
            return each
    near = difflib.get_close_matches(name, names(), n=1)
    advice = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(names())}."
    raise CallerError(f"There is no task named '{name}'.\n{advice}")


def recognise(source: CaseSource) -> Task:
    """The benchmark that a file belongs to, by its content. Raises `InputError` if it is of none we know."""
    opened = read_source(source)
    return _recognise(opened)


def load_cases(source: CaseSource, task: str | None = None) -> CaseFile:
    """Read a case file: a path, `-` (standard input) or `mini`; JSON Lines stay on disk. `task` overrides its content.

    Raises `InputError` with every mistake of the file, `CallerError` for an unknown task.
    """
    if (
        isinstance(source, str | Path)
        and Path(source).suffix in {*JSONL_SUFFIXES, PARQUET_SUFFIX}
        and Path(source).is_file()
    ):
        return _load_cohort(Path(source), task)
    opened = read_source(source)
    benchmark = recognise(opened) if task is None else find(task)
    cases = benchmark.load(opened)
    return CaseFile(Path(opened.path), benchmark.name, cases, opened.sha256, opened.content.format)


def _load_cohort(path: Path, task: str | None) -> CaseFile:
    """JSON Lines and Parquet are ours alone, so they hold ArchEHR-QA cases, unless `task` says otherwise."""
    benchmark = ARCHEHR_2025 if task is None else find(task)
    if path.suffix == PARQUET_SUFFIX:
        rows, sha256 = open_parquet(path, benchmark.read_line)
        return CaseFile(path, benchmark.name, rows, sha256, "parquet")
    cases, sha256 = open_jsonl(path, benchmark.read_line)
    return CaseFile(path, benchmark.name, cases, sha256, "jsonl")


def load_key(source: CaseSource) -> KeyFile:
    """Read an ArchEHR-QA key, of 2025 or 2026. Raises `InputError` with every mistake of the file."""
    opened = read_source(source)
    return KeyFile(Path(opened.path), opened.sha256, ARCHEHR_2025.load_key(opened))


def find_key(case_path: str | Path) -> Path | None:
    """The key that lies beside a case file: `<stem>_key.json`, else `archehr-qa_key.json`, else None."""
    path = resolve_path(case_path)
    beside = (path.with_name(f"{path.stem}_key.json"), path.with_name("archehr-qa_key.json"))
    return next((each for each in beside if each.is_file()), None)


def _recognise(source: Source) -> Task:
    content = source.content
    if not content.fields:
        return ARCHEHR_2025  # its loader says what an entry should be
    for each in _ALL:
        if each.recognises(content):
            return each
    for marks, what, fix in _MISTAKEN:
        if marks <= content.fields:
            raise InputError(source.path, [f": {what}"], fix)
    raise InputError(source.path, [": no benchmark we know has entries like these."], FORMAT_HINT)
