"""A run from its first line to its last: what the folder holds, what a failure does, and how it goes on."""

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import archqa
from archqa.core.case import Case
from archqa.errors import (
    AuthenticationFailed,
    BudgetExceeded,
    CallerError,
    InputError,
    ServerUnavailable,
)
from archqa.llm.model import Reply, Request
from archqa.llm.scripted import ScriptedModel
from archqa.runs.folder import trace_name
from archqa.runs.plan import Selection, Shard
from archqa.runs.predict import predict
from archqa.runs.record import CaseStatus, RunStatus
from archqa.runs.run import Run
from archqa.runs.stage_usage import stage_usage
from archqa.tasks.archehr_2025 import task as archehr_2025
from tests.fakes.replies import refusal_reply

Scripted = Callable[[Callable[[Request], object]], ScriptedModel]
NARRATIVES = {
    case.id: case.patient_narrative for case in archqa.load_cases("mini").cases
}


def by_model(out: Path, model: ScriptedModel, **options: Any) -> Run:
    return predict(
        "mini",
        out=out,
        scripted=model,
        **{"pipeline": "dmis", "cache": False, **options},
    )


def test_a_case_of_a_file_is_converted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    converted = []

    def counted(**fields: Any) -> Case:
        converted.append(fields["id"])
        return Case(**fields)

    monkeypatch.setattr(archehr_2025, "Case", counted)
    run = predict("mini", out=tmp_path / "run", pipeline="embedded")
    assert converted == list(run.manifest.case_ids)


def about(case_id: str, request: Request) -> bool:
    return NARRATIVES[case_id] in request.messages[1].content


def test_a_run_answers_every_case_and_its_folder_explains_it(
    tmp_path: Path, model: ScriptedModel
) -> None:
    run = by_model(tmp_path / "run", model)
    assert run.summary()["answered"] == 3
    assert run.manifest.status is RunStatus.FINISHED
    assert {"run.json", "cases.jsonl", "input.jsonl", "submission.json", "trace"} <= {
        path.name for path in run.path.iterdir()
    }
    manifest = json.loads((run.path / "run.json").read_text())
    assert manifest["data"]["sha256"]
    models = {agent: backend["name"] for agent, backend in manifest["backends"].items()}
    assert models["context"] == "o3"
    assert models["decision"] == "gpt-4.1"
    assert "general_expert/v2" in manifest["prompts"]
    assert "api_key" not in manifest["settings"]


def test_the_trace_holds_each_stages_prompt_reply_and_parse(
    tmp_path: Path, model: ScriptedModel
) -> None:
    run = by_model(tmp_path / "run", model)
    steps = run.folder.steps(run.records[0].id)
    assert len(steps) == run.records[0].usage.calls
    assert {step.agent for step in steps} == {
        "context",
        "general_expert",
        "recruiting",
        "specialist",
        "decision",
    }
    for step in steps:
        assert step.messages[0]["role"] == "system"
        assert step.parsed is not None
        assert json.loads(step.reply)


def test_a_run_folder_is_readable_by_its_owner_only(
    tmp_path: Path, model: ScriptedModel
) -> None:
    run = by_model(tmp_path / "run", model)
    assert stat.S_IMODE(run.path.stat().st_mode) == 0o700
    assert all(
        stat.S_IMODE(path.stat().st_mode) == 0o600
        for path in run.path.rglob("*")
        if path.is_file()
    )


def test_submission_lists_the_answers_in_file_order_in_the_official_form(
    tmp_path: Path, model: ScriptedModel
) -> None:
    run = by_model(tmp_path / "run", model)
    submission = json.loads((run.path / "submission.json").read_text())
    assert [each["case_id"] for each in submission] == list(NARRATIVES)
    assert submission[0]["answer"] == "As the note says. |1|"


def test_one_bad_case_becomes_a_line_and_the_others_are_answered(
    tmp_path: Path, make_scripted_model: Scripted
) -> None:
    bad = next(iter(NARRATIVES))
    unforeseen = make_scripted_model(
        lambda request: KeyError("oops") if about(bad, request) else None
    )
    run = by_model(tmp_path / "run", unforeseen)
    assert [record.status for record in run.records] == [
        CaseStatus.FAILED,
        CaseStatus.ANSWERED,
        CaseStatus.ANSWERED,
    ]
    assert run.records[0].error.startswith("Unforeseen KeyError at ")
    assert "oops" not in (run.path / "cases.jsonl").read_text()


def test_a_case_the_model_declines_to_decide_is_unanswerable(
    tmp_path: Path, make_scripted_model: Scripted
) -> None:
    bad = next(iter(NARRATIVES))

    def declines(request: Request) -> Reply | None:
        deciding = "essential" in (request.output_schema or {})["properties"]
        return refusal_reply() if deciding and about(bad, request) else None

    run = by_model(tmp_path / "run", make_scripted_model(declines))
    assert run.summary()["unanswerable"] == 1
    assert run.records[0].error.startswith("Refused: decision: the model declined")


def test_a_refused_key_ends_the_run_at_once_and_leaves_it_resumable(
    tmp_path: Path, make_scripted_model: Scripted
) -> None:
    locked = make_scripted_model(lambda _: AuthenticationFailed("no"))
    with pytest.raises(AuthenticationFailed):
        by_model(tmp_path / "run", locked, jobs=1)
    assert len(locked.asked) == 1
    assert Run.open(tmp_path / "run").manifest.status is RunStatus.STOPPED


def test_a_server_that_stays_away_ends_the_run(
    tmp_path: Path, make_scripted_model: Scripted
) -> None:
    with pytest.raises(ServerUnavailable):
        by_model(
            tmp_path / "run", make_scripted_model(lambda _: ServerUnavailable("down"))
        )
    assert all(
        record.status is CaseStatus.FAILED
        for record in Run.open(tmp_path / "run").records
    )


def test_resuming_asks_only_for_what_is_missing_and_ends_with_the_same_predictions(
    tmp_path: Path, model: ScriptedModel, make_scripted_model: Scripted
) -> None:
    whole = by_model(tmp_path / "whole", model)
    second = list(NARRATIVES)[1]
    with pytest.raises(AuthenticationFailed):
        by_model(
            tmp_path / "cut",
            make_scripted_model(
                lambda request: (
                    AuthenticationFailed("no") if about(second, request) else None
                )
            ),
            jobs=1,
        )
    later = make_scripted_model(lambda _: None)
    resumed = by_model(tmp_path / "cut", later, resume=True)
    assert (resumed.path / "submission.json").read_bytes() == (
        whole.path / "submission.json"
    ).read_bytes()
    assert not any(about(next(iter(NARRATIVES)), request) for request in later.asked)
    assert resumed.manifest.run == Run.open(tmp_path / "cut").manifest.run


def test_a_line_that_a_kill_cut_short_is_dropped_on_resumption(
    tmp_path: Path, model: ScriptedModel
) -> None:
    run = by_model(tmp_path / "run", model)
    whole = (run.path / "cases.jsonl").read_bytes()
    lines = whole.splitlines(keepends=True)
    (run.path / "cases.jsonl").write_bytes(lines[0] + lines[1] + lines[2][:40])
    assert len(Run.open(run.path).records) == 2
    resumed = by_model(run.path, model, resume=True)
    assert [record.id for record in resumed.records] == list(NARRATIVES)


def test_failed_cases_are_tried_again_on_resumption_and_the_tries_are_counted(
    tmp_path: Path, make_scripted_model: Scripted
) -> None:
    bad = next(iter(NARRATIVES))
    by_model(
        tmp_path / "run",
        make_scripted_model(
            lambda request: KeyError() if about(bad, request) else None
        ),
    )
    resumed = by_model(
        tmp_path / "run", make_scripted_model(lambda _: None), resume=True
    )
    assert (resumed.records[0].status, resumed.records[0].tries) == (
        CaseStatus.ANSWERED,
        2,
    )


def test_a_finished_run_resumed_makes_no_call(
    tmp_path: Path, model: ScriptedModel
) -> None:
    by_model(tmp_path / "run", model)
    calls = len(model.asked)
    by_model(tmp_path / "run", model, resume=True)
    assert len(model.asked) == calls


def test_replies_in_the_cache_are_not_paid_again(
    tmp_path: Path, model: ScriptedModel
) -> None:
    first = by_model(tmp_path / "one", model, cache=True)
    calls = len(model.asked)
    second = by_model(tmp_path / "two", model, cache=True)
    assert len(model.asked) == calls
    assert second.summary()["calls"] == 0
    assert (
        second.summary()["cached_calls"]
        == first.summary()["calls"] + first.summary()["cached_calls"]
    )
    assert second.submission() == first.submission()


def test_a_run_is_resumed_only_as_it_was_begun(
    tmp_path: Path, model: ScriptedModel
) -> None:
    by_model(tmp_path / "run", model)
    with pytest.raises(
        CallerError, match=r"was another run: .*settings\.labels differ"
    ):
        by_model(tmp_path / "run", model, resume=True, labels="multiclass")


def test_an_existing_folder_is_never_overwritten(
    tmp_path: Path, model: ScriptedModel
) -> None:
    by_model(tmp_path / "run", model)
    with pytest.raises(CallerError, match="exists already"):
        by_model(tmp_path / "run", model)


def test_a_budget_stops_the_run_and_the_run_can_go_on(
    tmp_path: Path, make_scripted_model: Scripted
) -> None:
    def priced(request: Request) -> Reply:
        from tests.runs.conftest import default_reply

        return Reply(
            text=default_reply(request),
            usage=archqa.runs.record.Usage(calls=1, cost_usd=0.01),
        )

    with pytest.raises(BudgetExceeded, match=r"budget of \$0.05 is spent"):
        by_model(tmp_path / "run", ScriptedModel(priced), max_cost=0.05, jobs=1)
    assert (
        by_model(tmp_path / "run", ScriptedModel(priced), resume=True).summary()[
            "answered"
        ]
        == 3
    )


def test_each_stages_calls_tokens_and_latency_can_be_told(
    tmp_path: Path, model: ScriptedModel
) -> None:
    run = by_model(tmp_path / "run", model)
    stages = {each.agent: each for each in stage_usage(run)}
    assert set(stages) == {
        "context",
        "general_expert",
        "recruiting",
        "specialist",
        "decision",
    }
    assert sum(each.usage.calls for each in stages.values()) == run.summary()["calls"]
    assert (
        sum(each.usage.prompt_tokens for each in stages.values())
        == run.summary()["prompt_tokens"]
    )
    assert stages["context"].p95 is not None


def test_shards_part_the_cases_without_overlap(
    tmp_path: Path, model: ScriptedModel
) -> None:
    parts = [
        by_model(tmp_path / str(n), model, selection=Selection(shard=Shard(n, 2)))
        for n in (1, 2)
    ]
    ids = [record.id for run in parts for record in run.records]
    assert sorted(ids) == sorted(NARRATIVES)


@pytest.mark.parametrize("text", ["2", "0/3", "4/3", "a/b", "1/2/3"])
def test_a_malformed_shard_is_refused(text: str) -> None:
    with pytest.raises(CallerError, match="is not K/N"):
        Shard.parse(text)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a run folder"):
        Run.open(tmp_path)


def test_ids_of_any_kind_make_safe_and_distinct_file_names() -> None:
    ids = [
        "1",
        "01",
        "../../etc/passwd",
        "a/b",
        "..",
        ".",
        "ä",
        "a b",
        "x" * 400,
        "x" * 401,
    ]
    names = [trace_name(each) for each in ids]
    assert len(set(names)) == len(ids)
    assert all(Path(name).parent == Path("trace") and len(name) < 200 for name in names)


def test_a_run_becomes_a_table(tmp_path: Path, model: ScriptedModel) -> None:
    table = by_model(tmp_path / "run", model).to_pandas()
    assert list(table["case_id"]) == list(NARRATIVES)
    assert set(table["status"]) == {"answered"}


async def test_predict_works_where_a_loop_is_running(
    tmp_path: Path, model: ScriptedModel
) -> None:
    assert by_model(tmp_path / "run", model).summary()["answered"] == 3
