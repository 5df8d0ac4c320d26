"""The main job through a model server: what arrives there, what comes back, and what the trace tells of it."""

import logging
from pathlib import Path
from typing import Any

import pytest

from archqa.errors import AuthenticationFailed, ModelNotFound, ServerUnavailable
from archqa.runs.plan import Selection
from archqa.runs.predict import predict
from archqa.runs.record import CaseStatus, RunStatus
from archqa.runs.run import Run
from archqa.settings import load_settings
from tests.fakes.server import FakeServer
from tests.llm.asking import API_KEY

STAGES = ["context", "general_expert", "recruiting", "specialist", "decision"]
PRICES = {
    "fake": {
        "prompt": 2,
        "cached": 0.5,
        "completion": 8,
        "as_of": "2026-01-01",
        "source": "a test",
    }
}


@pytest.fixture(autouse=True)
def quick_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits between tries are not waited out."""

    async def sleep(seconds: float) -> None:
        pass

    monkeypatch.setattr("stamina._core._smart_sleep", sleep)


@pytest.fixture
def run_on(tmp_path: Path) -> Any:
    """Predicts the first of the mini cases, or more, through a server."""

    def run(
        server: FakeServer,
        *,
        out: str = "run",
        resume: bool = False,
        limit: int = 1,
        screen: str = "per-sentence",
        **typed: Any,
    ) -> Run:
        named = {
            "base_url": server.base_url,
            "model": "fake",
            "api_key": API_KEY,
            "prices": PRICES,
            "pipelines": {"dmis": {"screen": screen}},
        } | typed
        selection = Selection(limit=limit)
        return predict(
            "mini",
            out=tmp_path / out,
            resume=resume,
            selection=selection,
            settings=load_settings(typed=named),
        )

    return run


def answers(run: Run) -> dict[str, Any]:
    return {row["case_id"]: row["answer"] for row in run.submission()}


def check_answers(run: Run) -> None:
    """Each answer cites sentences of its note, within the word limit."""
    cases = {case.id: case for case in run.cases}
    for record in run.records:
        if record.answer is not None:
            assert record.answer.words <= 75
            assert record.answer.cited
            assert record.answer.cited <= set(cases[record.id].sentence_ids)


def test_three_of_three_are_answered_through_all_six_stages(run_on: Any) -> None:
    with FakeServer() as server:
        run = run_on(server, limit=3)
        asked = server.requests
    assert run.count(CaseStatus.ANSWERED) == 3
    check_answers(run)
    assert set(asked.agents) == set(STAGES)
    assert asked.agents["general_expert"] == sum(
        len(case.sentences) for case in run.cases
    )
    assert run.usage.calls == asked.asked


def test_the_trace_tells_each_stages_words_reply_parse_and_cost(run_on: Any) -> None:
    with FakeServer() as server:
        run = run_on(server, limit=3)
    for case in run.cases:
        steps = run.folder.steps(case.id)
        assert {step.agent for step in steps} == set(STAGES)
        for step in steps:
            assert [message["role"] for message in step.messages] == ["system", "user"]
            # The medical background says to recruiting what the note is about.
            has_note = case.sentences[0].text in step.messages[1]["content"]
            assert has_note == (step.agent != "recruiting")
            assert step.reply.startswith("{")
            assert step.parsed
            assert step.usage.calls == 1
            assert step.usage.prompt_tokens > 100
            assert step.usage.completion_tokens > 5
            assert step.usage.cost_usd is not None
            assert step.prompt.startswith(f"{step.agent}/v")
            assert len(step.prompt_digest) == 64
        assert (
            sum(step.usage.prompt_tokens for step in steps)
            == _record(run, case.id).usage.prompt_tokens
        )


def test_most_of_the_prompt_tokens_come_from_the_servers_prefix_cache(
    run_on: Any,
) -> None:
    with FakeServer() as server:
        run = run_on(server)
    screened = [
        step.usage
        for step in run.folder.steps(run.cases[0].id)
        if step.agent == "general_expert"
    ]
    assert sum(usage.cached_prompt_tokens for usage in screened) > 0.7 * sum(
        usage.prompt_tokens for usage in screened
    )


def test_a_rerun_calls_nobody_and_says_the_same(run_on: Any) -> None:
    with FakeServer() as server:
        first = run_on(server)
        asked = server.count
        second = run_on(server, out="again")
        assert server.count == asked
    assert answers(first) == answers(second)
    assert (second.usage.calls, second.usage.cached_calls, second.usage.cost_usd) == (
        0,
        asked,
        0.0,
    )


@pytest.mark.parametrize(
    "gap",
    [
        "no-json-schema",
        "no-json-schema-500",
        "no-temperature",
        "no-system-role",
        "no-usage",
    ],
)
def test_a_lesser_server_answers_all_the_same(gap: str, run_on: Any) -> None:
    with FakeServer(gap) as server:
        run = run_on(server)
    assert run.count(CaseStatus.ANSWERED) == 1
    assert (run.usage.cost_usd is None) == (gap == "no-usage")


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("invented-ids,first=1,only=decision", "9999"),
        ("missing-sentences,first=1", "You left out"),
        ("duplicate-sentences,first=1", "more than once"),
        ("wrong-schema,first=1,only=context", "does not fit the schema"),
        ("invalid-json,first=1,only=recruiting", "no complete JSON object"),
        ("marks-in-text,first=1", "Leave citation marks and pipes out"),
        ("empty-content,first=1,only=decision", "Your reply was empty"),
    ],
)
def test_what_is_wrong_with_a_reply_is_said_and_repaired(
    fault: str, why: str, run_on: Any
) -> None:
    screen = "batched" if "sentences" in fault else "per-sentence"
    with FakeServer(fault) as server:
        run = run_on(server, screen=screen)
    steps = [step for case in run.cases for step in run.folder.steps(case.id)]
    rejected = [step for step in steps if step.rejected]
    assert run.count(CaseStatus.ANSWERED) == 1
    assert rejected
    assert all(why in step.rejected for step in rejected)
    repaired = [step for step in steps if len(step.messages) == 4]
    assert len(repaired) == len(rejected)
    assert all(
        why in step.messages[3]["content"] and not step.rejected for step in repaired
    )


@pytest.mark.parametrize("fault", ["fenced", "trailing-prose", "thinking"])
def test_dressed_up_replies_need_no_repair(fault: str, run_on: Any) -> None:
    with FakeServer(fault) as server:
        run = run_on(server)
    assert run.count(CaseStatus.ANSWERED) == 1
    assert not [
        step
        for case in run.cases
        for step in run.folder.steps(case.id)
        if step.rejected
    ]


@pytest.mark.parametrize(
    "fault",
    ["invented-ids,always", "duplicate-sentences,always", "missing-sentences,always"],
)
def test_what_cannot_be_repaired_is_mended_and_no_invented_id_gets_out(
    fault: str, run_on: Any
) -> None:
    screen = "batched" if "sentences" in fault else "per-sentence"
    with FakeServer(fault) as server:
        run = run_on(server, screen=screen)
    assert run.count(CaseStatus.ANSWERED) == 1
    check_answers(run)
    assert any(
        step.repaired for case in run.cases for step in run.folder.steps(case.id)
    )


def test_an_answer_that_is_too_long_is_compressed_with_its_citations(
    run_on: Any,
) -> None:
    with FakeServer("too-many-words,only=decision") as server:
        run = run_on(server)
        assert server.requests.agents["answer"] == 1
    check_answers(run)
    for record in run.records:
        assert record.answer.cited == set(record.evidence)


def test_an_answer_nobody_can_shorten_is_taken_from_the_note(run_on: Any) -> None:
    with FakeServer("too-many-words,always") as server:
        run = run_on(server)
    assert run.count(CaseStatus.ANSWERED) == 1
    check_answers(run)
    assert all(
        "extracted from the note" in " ".join(record.remarks) for record in run.records
    )


@pytest.mark.parametrize(
    "fault", ["length", "refusal", "content-filter", "400-context", "wrong-schema"]
)
def test_specialists_who_fail_are_left_out_and_remarked(
    fault: str, run_on: Any
) -> None:
    with FakeServer(f"{fault},always,only=specialist") as server:
        run = run_on(server)
    assert run.count(CaseStatus.ANSWERED) == 1
    for record in run.records:
        assert len(record.remarks) >= 2
        assert all(remark.startswith("the specialist in ") for remark in record.remarks)
        assert set(record.judgements) == {"general expert"}


def test_sentences_the_general_expert_fails_on_are_left_to_the_specialists(
    run_on: Any,
) -> None:
    with FakeServer("length@0.3,always,only=general_expert") as server:
        run = run_on(server)
    assert run.count(CaseStatus.ANSWERED) == 1
    assert all(
        "is left to the specialists" in " ".join(record.remarks)
        for record in run.records
    )


def test_a_refused_decision_is_unanswerable_and_a_cut_off_one_failed(
    run_on: Any,
) -> None:
    with FakeServer("refusal,only=decision") as server:
        assert run_on(server, out="refused").count(CaseStatus.UNANSWERABLE) == 1
    with FakeServer("length,only=decision") as server:
        run = run_on(server, out="cut", cache=False, fallback=False)
    assert run.count(CaseStatus.FAILED) == 1
    assert all(
        record.error.startswith("Truncated: decision: the reply was cut off")
        for record in run.records
    )


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("401", AuthenticationFailed),
        ("404-model", ModelNotFound),
        ("503,always", ServerUnavailable),
    ],
)
def test_what_no_case_can_survive_stops_the_run_resumably(
    fault: str, error: type[Exception], run_on: Any, tmp_path: Path
) -> None:
    with FakeServer(fault) as server, pytest.raises(error) as raised:
        run_on(server)
    assert raised.value.exit_code == 4  # type: ignore[attr-defined]
    assert Run.open(tmp_path / "run").manifest.status is RunStatus.STOPPED


def test_a_run_that_stopped_goes_on_where_it_was(run_on: Any, tmp_path: Path) -> None:
    """Paid replies are not paid again: the server dies for good after the first stage."""
    with FakeServer("503,always,only=decision") as server:
        with pytest.raises(ServerUnavailable):
            run_on(server)
        port = int(server.base_url.split(":")[2].split("/")[0])
        before = server.requests.outcomes["ok"]
    with FakeServer(port=port) as server:
        run = run_on(server, resume=True)
        assert server.requests.agents == {"decision": 1}
    assert run.count(CaseStatus.ANSWERED) == 1
    assert run.usage.calls == before + 1


def test_faults_at_three_calls_in_ten_lose_no_case(run_on: Any) -> None:
    names = (
        "429",
        "500",
        "502",
        "503",
        "529",
        "connection-reset",
        "html-200",
        "empty-choices",
        "not-json",
    )
    with FakeServer(*(f"{name}@0.035" for name in names), seed=5) as server:
        run = run_on(server, limit=3)
        outcomes = server.requests.outcomes
    assert run.count(CaseStatus.ANSWERED) == 3
    assert sum(outcomes.values()) > 1.2 * outcomes["ok"]


def test_the_key_and_the_note_are_in_no_log_and_the_key_in_no_file(
    run_on: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with FakeServer(
        "500@0.2", "wrong-schema@0.1", "refusal@0.05", quote_prompt=True
    ) as server:
        run = run_on(server)
    assert API_KEY not in caplog.text
    assert not [
        sentence.text
        for case in run.cases
        for sentence in case.sentences
        if sentence.text in caplog.text
    ]
    assert [path for path in run.path.rglob("*") if path.is_file()]
    assert not [
        path
        for path in run.path.rglob("*")
        if path.is_file() and API_KEY in path.read_text(encoding="utf-8")
    ]
    for record in run.records:
        said = " ".join([record.error, *record.remarks])
        assert not [
            sentence.text
            for case in run.cases
            for sentence in case.sentences
            if sentence.text in said
        ]


def _record(run: Run, case_id: str) -> Any:
    return next(record for record in run.records if record.id == case_id)
