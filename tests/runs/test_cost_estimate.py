"""What a run will cost, before it is run: conversations as a range, prices as far as they are known."""

from pathlib import Path
from typing import Any

import pytest

from archqa.agents.conversation import conversation_turns
from archqa.agents.registry import AGENT_NAMES
from archqa.evaluation.ablation import VARIANTS, ablate, estimate_ablation
from archqa.runs.cost_estimate import CostEstimate, estimate_cost, estimate_variants
from archqa.runs.plan import Selection, plan_run
from archqa.runs.predict import predict
from archqa.settings import Settings, load_settings
from tests.fakes.server import FakeServer

PRICE = {
    "prompt": 1.0,
    "cached": 1.0,
    "completion": 1.0,
    "as_of": "2026-11-01",
    "source": "a test",
}


def settings_of(record: Path, **typed: Any) -> Settings:
    """The settings of a model that answers questions on a record, at a dollar a million tokens."""
    own = {"record": str(record), "model": "m", "cache": False, "prices": {"m": PRICE}}
    return load_settings(typed=own | typed)


def estimate_questions(questions: Path, name: str, settings: Settings) -> CostEstimate:
    """The estimate for the questions of a file by one of the pipelines for records."""
    return estimate_cost(
        plan_run(questions, None, Selection(), settings.replace(pipeline=name))
    )


@pytest.mark.parametrize(
    ("pipeline", "calls"),
    [
        ("single-turn-request", (6, 6, 6)),
        ("single-turn-retriever-code", (9, 9, 9)),
        ("multi-turn-retriever-code", (9, 18, 90)),
    ],
)
def test_a_conversation_is_estimated_with_all_its_turns(
    questions: Path, record: Path, pipeline: str, calls: tuple[int, int, int]
) -> None:
    """Three questions; the benchmark gives the turns of the single-turn agents, and a limit of 30."""
    estimate = estimate_questions(questions, pipeline, settings_of(record))
    assert tuple(amount.calls for amount in estimate.amounts) == calls
    assert estimate.incomplete_cases == 0
    costs = [amount.cost_usd or 0 for amount in estimate.amounts]
    assert costs == sorted(costs)
    assert estimate.cost_usd == pytest.approx(
        (
            estimate.amounts.expected.prompt_tokens
            + estimate.amounts.expected.completion_tokens
        )
        / 1_000_000
    )


def test_each_turn_sends_the_turns_before_it_again(
    questions: Path, record: Path
) -> None:
    assumed = conversation_turns()["fhir_retriever_code"]
    once = estimate_questions(
        questions, "single-turn-retriever-code", settings_of(record)
    )
    tokens = once.amounts.expected.prompt_tokens
    grown = (
        3 * (1 + 2) * assumed.added_tokens
    )  # The second turn has one more to read, the third two.
    first_prompts = (tokens - grown) / 3
    expected_shared = 2 * first_prompts + 3 * assumed.added_tokens
    assert first_prompts > 3 * 500
    assert once.amounts.expected.shared_tokens > expected_shared - 10


def test_the_pipelines_own_limits_hold(questions: Path, record: Path) -> None:
    few = settings_of(record, iterations=4)
    estimate = estimate_questions(questions, "multi-turn-retriever-code", few)
    assert [amount.calls for amount in estimate.amounts] == [9, 12, 12]
    assert "4 turns a conversation (assumed; 3 to 4)" in estimate.remarks[0]
    short = settings_of(record, context_limit=15_000)
    estimate = estimate_questions(questions, "multi-turn-retriever", short)
    assert estimate.amounts.high.calls == 2 * 3, (
        "8,000 tokens a turn: the third would be too long"
    )


def test_turns_that_are_in_the_cache_are_not_paid_again(
    questions: Path, record: Path, tmp_path: Path
) -> None:
    with FakeServer() as server:
        settings = settings_of(record, base_url=server.base_url, cache=True)
        pipeline = "multi-turn-retriever-code"
        predict(
            questions,
            out=tmp_path / "short",
            settings=settings.replace(pipeline=pipeline, iterations=1),
        )
        begun = estimate_questions(questions, pipeline, settings)
        predict(
            questions,
            out=tmp_path / "whole",
            settings=settings.replace(pipeline=pipeline),
        )
        whole = estimate_questions(questions, pipeline, settings)
    assert begun.cached_calls == 3
    assert begun.calls == 3 * (6 - 1)
    assert (whole.calls, whole.amounts.high.cost_usd) == (0, 0)
    assert not [remark for remark in whole.remarks if "turns a conversation" in remark]


def test_the_planner_counts_where_the_grammar_cannot_stand_in_for_it(
    record: Path, tmp_path: Path
) -> None:
    file = tmp_path / "questions.csv"
    file.write_text(
        "question_id,question,patient_fhir_id\nq,Ought the moon to bark twice at dawn?,p\n"
    )
    estimate = estimate_questions(file, "planner", settings_of(record))
    [row] = estimate.rows
    assert row.agent == "planner"
    assert row.amounts.low.calls == 1
    assert row.amounts.high.calls == 6
    assert row.amounts.low.prompt_tokens > 1000
    assert row.amounts.low.completion_tokens > 0
    assert row.turns is not None
    assert row.turns.basis == "measured"
    assert "fhir_multi_turn_code" in estimate.remarks[-1], "who may be called besides"


def test_the_table_of_turns_names_agents_that_there_are_in_a_sensible_order() -> None:
    for name, assumed in conversation_turns().items():
        low, expected, high = assumed.turns
        assert name in AGENT_NAMES
        assert 1 <= low <= expected <= high
        assert assumed.basis in {"measured", "benchmark", "assumed"}
        assert len(assumed.source) > 20


def test_json_has_the_range_and_the_expected_numbers(
    questions: Path, record: Path
) -> None:
    estimate = estimate_questions(
        questions, "multi-turn-retriever-code", settings_of(record)
    )
    whole = estimate.as_json()
    for part in (whole, whole["by_agent"][0]):
        assert part["low"]["calls"] < part["expected"]["calls"] < part["high"]["calls"]
        assert part["calls"] == part["expected"]["calls"]
        assert part["cost_usd"] == part["expected"]["cost_usd"]
    assert whole["by_agent"][0]["turns"]["basis"] == "assumed"


def test_an_unknown_price_is_unknown_and_no_zero(questions: Path, record: Path) -> None:
    settings = settings_of(record, model="nobody-s")
    estimate = estimate_questions(questions, "multi-turn-retriever", settings)
    assert [amount.cost_usd for amount in estimate.amounts] == [None, None, None]
    assert "nobody-s: its price is unknown, and so is the cost." in estimate.remarks


def test_a_price_from_memory_says_so_and_one_of_ones_own_is_named(
    questions: Path, record: Path
) -> None:
    listed = estimate_questions(
        questions, "single-turn-request", settings_of(record, model="gpt-4.1")
    )
    own = estimate_questions(questions, "single-turn-request", settings_of(record))
    [remark] = [remark for remark in listed.remarks if remark.startswith("gpt-4.1:")]
    assert "list price of 2025-04-14, not verified" in remark
    assert "https://" in remark
    assert "m: price of 2026-11-01 (a test)." in own.remarks


def test_requests_of_several_variants_are_paid_once_where_there_is_a_cache() -> None:
    plans, estimates = {}, {}
    for cache in (True, False):
        settings = load_settings(typed={"model": "m", "cache": cache})
        plans[cache] = plan_run("mini", None, Selection(), settings)
        estimates[cache] = estimate_variants([plans[cache]] * 2)
    once = estimate_cost(plans[True])
    assert estimates[True].calls == estimates[True].cached_calls == once.calls
    assert estimates[False].calls == 2 * once.calls


def test_an_ablation_makes_the_calls_that_were_estimated_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the agents whose prompts do not depend on what other models said, to the call."""
    monkeypatch.setattr("archqa.evaluation.ablation.VARIANTS", VARIANTS[:3])
    with FakeServer() as server:
        settings = load_settings(typed={"model": "m", "base_url": server.base_url})
        estimate = estimate_ablation("mini", settings, limit=None)
        assert server.count == 0
        ablate(
            "mini",
            settings,
            key=None,
            out=tmp_path / "ablation",
            limit=None,
            on_start=lambda *_: None,
            on_case=lambda *_: None,
        )
        asked = server.requests.agents
    estimated = {row.agent: row.amounts.expected.calls for row in estimate.rows}
    for agent in ("context", "general_expert", "recruiting"):
        assert estimated[agent] == asked[agent], agent
    assert estimate.cached_calls > 0


def test_a_sample_stands_for_all_cases(questions: Path, record: Path) -> None:
    settings = settings_of(record, pipeline="multi-turn-retriever-code")
    plan = plan_run(questions, None, Selection(), settings)
    sampled = estimate_cost(plan, sample_size=1)
    assert (sampled.cases, sampled.sampled_cases) == (3, 1)
    whole = estimate_cost(plan)
    assert [amount.calls for amount in sampled.amounts] == [9, 18, 90]
    assert sampled.cost_usd == pytest.approx(whole.cost_usd, rel=0.05)
