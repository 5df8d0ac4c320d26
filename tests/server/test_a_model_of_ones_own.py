"""A small local model runs `dmis` and `planner` end to end; a GGUF of one's own, if it is named:

    ARCHQA_TEST_GGUF=/models/model.gguf python -m pytest -n0 -s -m server tests/server/test_a_model_of_ones_own.py

How good its answers are is no matter of this test; that every case ends in a valid answer or a typed failure,
and that repairs and losses are counted, is. The counts are printed (`-s`).
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import archqa
from archqa.errors import CaseFailed
from archqa.query import Query
from archqa.runs.record import CaseRecord, CaseStatus
from archqa.runs.run import Run
from archqa.settings import load_settings
from archqa.tasks.fhir_agentbench.task import RecordResult
from tests.benchmarks.own_model import PIPELINES, Outcome, outcome_of, run_pipeline
from tests.fhir.invented import build_store
from tests.runs.fhir_questions import RESOURCES
from tests.server.llama import CONTEXT, llama_server, missing, runtime_missing

pytestmark = [pytest.mark.server, pytest.mark.long]

CASES = Path(__file__).with_name("two_cases.json")

OWN_GGUF = os.environ.get("ARCHQA_TEST_GGUF")

MAX_TOKENS = 4096 if OWN_GGUF else 120
"""Of a reply: the small model of the tests repeats itself up to any limit."""

LIMIT = None if OWN_GGUF else 1
"""Cases of each pipeline."""

SHORTER = {
    "dmis": ("most_experts=1",),
    "planner": ("planner_turns=1",),
}
"""Settings that let the small model of the tests come to an end within minutes."""

FAILURES = (
    "Unusable: ",
    "Truncated: ",
    "Refused: ",
    "NotUnderstood: ",
    "ContextTooLong: ",
)

BEYOND_THE_GRAMMAR = "Pray, the sundry particulars?"


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    lacking = runtime_missing() if OWN_GGUF else missing()
    if lacking:
        pytest.skip(lacking)
    gguf = Path(OWN_GGUF) if OWN_GGUF else None
    with llama_server(context=4 * CONTEXT, gguf=gguf) as url:
        yield url


@pytest.fixture(scope="module", params=list(PIPELINES))
def run(
    request: pytest.FixtureRequest,
    base_url: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Run:
    folder = tmp_path_factory.mktemp("run")
    shorter = () if OWN_GGUF else SHORTER[request.param]
    return run_pipeline(
        request.param, base_url, "own", folder, CASES, MAX_TOKENS, LIMIT, shorter
    )


@pytest.fixture
def outcome(run: Run) -> Outcome:
    return outcome_of(run)


def test_every_case_ends_in_a_valid_answer_or_a_typed_failure(run: Run) -> None:
    assert run.complete
    for record in run.records:
        if record.status is CaseStatus.ANSWERED:
            check_answer(run, record)
        else:
            assert record.error.startswith(FAILURES)


def check_answer(run: Run, record: CaseRecord) -> None:
    """A cited answer within its note and its words, or a query of the language."""
    if isinstance(record.result, RecordResult):
        queries = [Query.model_validate(query) for query in record.result.queries]
        assert queries or record.result.handed_over
        return
    assert record.answer is not None
    ids = {case.id: set(case.sentence_ids) for case in run.notes}
    assert record.answer.cited
    assert record.answer.cited <= ids[record.id]
    assert record.answer.words <= 75


def test_repairs_and_losses_are_counted(run: Run, outcome: Outcome) -> None:
    print(f"\n{outcome}")  # noqa: T201
    assert outcome.replies == run.usage.calls > 0
    assert outcome.replies == outcome.calls + outcome.repeated
    assert outcome.passed + outcome.repaired + outcome.lost <= outcome.replies
    assert outcome.answered + outcome.refused + outcome.failed == len(
        run.manifest.case_ids
    )
    if outcome.lost and not outcome.failed:
        assert any(record.remarks for record in run.records), "what was lost is said"


def test_the_run_says_that_its_text_stayed_on_this_machine(
    run: Run, base_url: str
) -> None:
    host = base_url.removeprefix("http://").removesuffix("/v1")
    assert run.manifest.destinations == (f"{host} on this machine",)


@pytest.mark.long
def test_a_question_beyond_the_grammar_goes_through_the_planner(
    base_url: str, tmp_path: Path
) -> None:
    record = build_store(tmp_path / "record", RESOURCES, "gcp").path
    typed = {"base_url": base_url, "model": "own", "cache": False, "jobs": 1}
    limits = (
        f"agents.planner.max_tokens={MAX_TOKENS}",
        "agents.planner.turns=1",
        "planner_turns=1",
    )
    patience = (
        "timeout=900",
        "tries=1",
    )  # One thread reads the planner's prompt for minutes.
    settings = load_settings(None, typed, (*limits, *patience, "fallback=false"))
    try:
        answer = archqa.ask(
            BEYOND_THE_GRAMMAR, patient="p", record=record, settings=settings
        )
    except CaseFailed:
        return  # A typed failure is an end too.
    assert answer.usage.calls > 0
    assert answer.lines or answer.message
