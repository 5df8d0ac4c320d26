"""A run on two Ray nodes is the run it would have been here, whatever dies on the way."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from archqa.errors import BudgetExceeded, CallerError
from archqa.runs.predict import predict
from archqa.runs.record import CaseRecord
from archqa.runs.run import Run
from tests.fakes.cases import write_synthetic_cases
from tests.fakes.server import FakeServer

pytestmark = [pytest.mark.cluster, pytest.mark.long]

LEAN: dict[str, Any] = {
    "screen": "batched",
    "experts": False,
    "context": False,
    "model": "fake",
}
"""Two calls a case: the general expert's, and the decision's."""


def on_ray(
    cases: Path, out: Path, server: FakeServer, cluster: Any, **more: Any
) -> Run:
    there = {
        "runner": "ray",
        "ray_address": cluster.address,
        "base_url": server.base_url,
    }
    return predict(cases, out=out, **{**LEAN, "jobs": 8, **there, **more})


def timeless(run: Run) -> list[dict[str, Any]]:
    def without(record: CaseRecord) -> dict[str, Any]:
        usage = record.usage.model_copy(
            update={"seconds": 0.0, "cached_prompt_tokens": 0}
        )
        return record.model_copy(update={"seconds": 0.0, "usage": usage}).model_dump()

    return [without(record) for record in run.records]


def test_two_nodes_predict_what_one_process_does(
    tmp_path: Path, ray_nodes: Any
) -> None:
    cases = write_synthetic_cases(tmp_path / "cases.jsonl", count=60, sentences=4)
    with FakeServer(latency=0.05, sigma=0.5, seed=1) as server:
        here = predict(
            cases,
            out=tmp_path / "here",
            base_url=server.base_url,
            cache=False,
            jobs=8,
            **LEAN,
        )
        asked = server.count
        there = on_ray(cases, tmp_path / "there", server, ray_nodes)
        assert server.count == 2 * asked
        assert server.max_in_flight <= 8
    assert (there.path / "submission.json").read_bytes() == (
        here.path / "submission.json"
    ).read_bytes()
    assert timeless(there) == timeless(here)
    for case_id in here.manifest.case_ids:
        assert sorted(step.agent for step in there.folder.steps(case_id)) == sorted(
            step.agent for step in here.folder.steps(case_id)
        )
    assert there.manifest.status.value == "finished"


def test_a_node_that_dies_half_way_loses_nothing_and_repeats_only_what_was_in_flight(
    tmp_path: Path, ray_nodes: Any
) -> None:
    cases = write_synthetic_cases(tmp_path / "cases.jsonl", count=2000, sentences=4)
    with FakeServer(latency=0.1, sigma=0.5, seed=1) as server:
        here = predict(
            cases,
            out=tmp_path / "here",
            base_url=server.base_url,
            cache=False,
            jobs=8,
            **LEAN,
        )
        asked = server.count
        killed = after(
            1000, lambda: ray_nodes.remove_node(ray_nodes.second, allow_graceful=False)
        )
        there = on_ray(cases, tmp_path / "there", server, ray_nodes, on_case=killed)
        repeated = server.count - 2 * asked
    assert killed.done.is_set()
    assert (there.path / "submission.json").read_bytes() == (
        here.path / "submission.json"
    ).read_bytes()
    assert len((there.path / "cases.jsonl").read_text().splitlines()) == 2000
    assert 0 <= repeated <= 4, "the places of the node that died"


class after:  # noqa: N801  # reads as a word
    """Does something once, beside the run, when so many cases have ended."""

    def __init__(self, cases: int, deed: Callable[[], None]) -> None:
        self._left = cases
        self._deed = deed
        self.done = threading.Event()

    def __call__(self, _: CaseRecord) -> None:
        self._left -= 1
        if not self._left:
            self.done.set()
            threading.Thread(target=self._deed).start()


def test_the_requests_of_all_workers_together_keep_to_the_minute(
    tmp_path: Path, ray_nodes: Any
) -> None:
    cases = write_synthetic_cases(tmp_path / "cases.jsonl", count=150, sentences=3)
    with FakeServer(latency=0.02) as server:
        on_ray(cases, tmp_path / "run", server, ray_nodes, requests_per_minute=240)
        arrived = sorted(each.arrived for each in server._service.model.seen)
    assert len(arrived) == 300
    for first, later in zip(arrived, arrived[240:], strict=False):
        assert later - first >= 60.0
    assert arrived[-1] - arrived[0] <= 299 * 62 / 240 + 3, "slower than it must be"


def test_a_spent_budget_stops_all_workers_within_one_call_each(
    tmp_path: Path, ray_nodes: Any
) -> None:
    cases = write_synthetic_cases(tmp_path / "cases.jsonl", count=60, sentences=4)
    price = {
        "fake": {
            "prompt": 1000.0,
            "cached": 1000.0,
            "completion": 0.0,
            "as_of": "2026-01-01",
            "source": "test",
        }
    }
    with FakeServer(latency=0.1) as server:
        whole = predict(
            cases,
            out=tmp_path / "whole",
            base_url=server.base_url,
            prices=price,
            cache=False,
            **LEAN,
        )
        each = whole.usage.cost_usd / whole.usage.calls
        before = server.count
        with pytest.raises(BudgetExceeded, match="is spent"):
            on_ray(
                cases,
                tmp_path / "run",
                server,
                ray_nodes,
                jobs=4,
                prices=price,
                max_cost=40 * each,
            )
        time.sleep(0.5)
        assert server.count - before <= 40 * 1.1 + 4
        cheaper = server.count
        run = on_ray(
            cases,
            tmp_path / "run",
            server,
            ray_nodes,
            jobs=4,
            prices=price,
            resume=True,
        )
        assert server.count - cheaper <= 120 - 40 + 8, "what was paid is not paid again"
    assert (run.path / "submission.json").read_bytes() == (
        whole.path / "submission.json"
    ).read_bytes()


def test_a_case_that_kills_its_workers_is_given_up_after_three_and_no_other_is(
    tmp_path: Path, ray_nodes: Any
) -> None:
    import ray

    cases = write_synthetic_cases(tmp_path / "cases.jsonl", count=30, sentences=3)
    ray.init(
        ray_nodes.address,
        log_to_driver=False,
        runtime_env={"worker_process_setup_hook": poison},
    )
    with FakeServer(latency=0.05) as server:
        run = on_ray(cases, tmp_path / "run", server, ray_nodes)
    failed = [record for record in run.records if record.error]
    assert [record.id for record in failed] == ["s7"]
    assert "3 workers died" in failed[0].error
    assert failed[0].tries == 3
    assert len(run.submission()) == 29


def poison() -> None:
    """In every worker: the case s7 ends the process."""
    from archqa.runs.ray import worker

    attempt = worker.attempt_case

    async def deadly(case: Any, *more: Any) -> Any:
        if case.id == "s7":
            os._exit(1)
        return await attempt(case, *more)

    worker.attempt_case = deadly


def test_equal_questions_on_two_nodes_at_once_are_paid_once(
    tmp_path: Path, ray_nodes: Any
) -> None:
    lines = write_synthetic_cases(
        tmp_path / "cases.jsonl", count=1, sentences=4
    ).read_text()
    twins = tmp_path / "twins.jsonl"
    twins.write_text(
        "".join(lines.replace('"s1"', f'"t{number}"') for number in range(8))
    )
    with FakeServer(latency=0.5) as server:
        run = on_ray(twins, tmp_path / "run", server, ray_nodes)
        assert server.count == 2
    assert run.usage.calls == 2
    assert run.usage.cached_calls == 14


def test_the_embedded_engine_answers_alike_on_two_nodes(
    tmp_path: Path, ray_nodes: Any
) -> None:
    here = predict("mini", out=tmp_path / "here", pipeline="embedded")
    there = predict(
        "mini",
        out=tmp_path / "there",
        pipeline="embedded",
        runner="ray",
        ray_address=ray_nodes.address,
    )
    assert (there.path / "submission.json").read_bytes() == (
        here.path / "submission.json"
    ).read_bytes()
    assert timeless(there) == timeless(here)


def test_an_address_where_nobody_is_gets_one_clear_error_and_leaves_no_folder(
    tmp_path: Path,
) -> None:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    with pytest.raises(CallerError, match=r"No Ray cluster answers at 127.0.0.1:1"):
        predict("mini", out=tmp_path / "run", runner="ray", ray_address="127.0.0.1:1")
    assert not (tmp_path / "run").exists()


def test_a_driver_that_is_killed_goes_on_with_resume_and_pays_nothing_twice(
    tmp_path: Path, ray_nodes: Any
) -> None:
    cases = write_synthetic_cases(tmp_path / "cases.jsonl", count=60, sentences=4)
    with FakeServer(latency=0.2) as server:
        words = [
            "predict",
            str(cases),
            "--out",
            str(tmp_path / "run"),
            "--base-url",
            server.base_url,
            "--yes",
            "--quiet",
        ]
        words += [
            "--runner",
            "ray",
            "--ray-address",
            ray_nodes.address,
            "--model",
            "fake",
            "--jobs",
            "8",
            "--resume",
        ]
        lean = [
            "--set",
            "screen=batched",
            "--set",
            "experts=off",
            "--set",
            "context=off",
        ]
        command = [
            sys.executable,
            "-c",
            "from archqa.cli.main import run; run()",
            *words,
            *lean,
        ]
        process = subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        )
        while len(ended(tmp_path / "run")) < 20:
            assert process.poll() is None
            time.sleep(0.1)
        process.kill()
        process.wait()
        before = ended(tmp_path / "run")
        subprocess.run(
            command,
            check=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert server.count <= 120 + 8, "only what was in flight is asked again"
    after = ended(tmp_path / "run")
    assert after[: len(before)] == before
    assert len(after) == 60


def ended(folder: Path) -> list[str]:
    path = folder / "cases.jsonl"
    return (
        [
            line
            for line in path.read_text().splitlines(keepends=True)
            if line.endswith("\n")
        ]
        if path.is_file()
        else []
    )
