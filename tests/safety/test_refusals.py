"""A case that a model declines everywhere has failed, and is tried again; a refused answer stands."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.test_commands import CommandResult, archqa
from tests.fakes.server import FakeServer

KEY = Path(__file__).resolve().parents[2] / "data" / "mini" / "mini_key.json"


class Ending(NamedTuple):
    """How `archqa predict` ended, what it printed, and the records of its cases."""

    result: CommandResult
    summary: dict[str, Any]
    records: list[dict[str, Any]]


def predict(folder: Path, fault: str | None, *options: str, limit: int = 1) -> Ending:
    """Run the bundled cases with a server that has this fault."""
    run = folder / "run"
    with FakeServer(*([fault] if fault else [])) as server:
        result = archqa(
            "predict",
            "mini",
            *("--limit", str(limit), "--base-url", server.base_url, "--model", "m"),
            *("--out", str(run), "--json", "--set", "cache.enabled=false", *options),
            cwd=folder,
        )
    lines = (run / "cases.jsonl").read_text().splitlines()
    return Ending(
        result, json.loads(result.stdout), [json.loads(line) for line in lines]
    )


@pytest.mark.parametrize(
    "fault",
    [
        "refusal",
        "content-filter",
        "empty-content",
        "length",
        "wrong-schema",
        "400-context",
    ],
)
def test_a_case_without_one_usable_reply_has_failed(fault: str, tmp_path: Path) -> None:
    ending = predict(tmp_path, f"{fault},always")
    assert ending.result.returncode == 1, ending.result.stderr
    assert (ending.summary["failed"], ending.summary["unanswerable"]) == (1, 0)
    assert ending.summary["answered"] == 0
    assert ending.records[-1]["error"].startswith("Unusable:")


def test_resume_asks_again_what_was_refused(tmp_path: Path) -> None:
    refused = predict(tmp_path, "refusal,always", limit=2)
    assert refused.summary["failed"] == 2
    resumed = predict(tmp_path, None, "--resume", limit=2)
    assert resumed.result.returncode == 0, resumed.result.stderr
    assert (resumed.summary["answered"], resumed.summary["failed"]) == (2, 0)
    assert [record["tries"] for record in resumed.records[-2:]] == [2, 2]


def test_a_refused_answer_stands_though_the_labels_were_given(tmp_path: Path) -> None:
    ending = predict(tmp_path, "refusal,always,only=decision")
    assert (ending.result.returncode, ending.summary["unanswerable"]) == (0, 1)


@pytest.mark.parametrize("subtask", [1, 4])
def test_a_subtask_of_2026_has_failed_when_every_reply_is_refused(
    subtask: int, tmp_path: Path
) -> None:
    task = ("--task", f"archehr-2026-st{subtask}", "--key", str(KEY))
    refused = predict(tmp_path, "refusal,always", *task[: 2 if subtask == 1 else 4])
    assert (refused.result.returncode, refused.summary["failed"]) == (1, 1)


def test_specialists_that_could_not_be_recruited_are_remarked(tmp_path: Path) -> None:
    ending = predict(tmp_path, "refusal,always,only=recruiting")
    assert (ending.result.returncode, ending.summary["answered"]) == (0, 1)
    assert "no specialists: recruiting failed (Refused)" in ending.records[0]["remarks"]
