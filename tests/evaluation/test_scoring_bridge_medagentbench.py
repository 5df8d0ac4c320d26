"""`archqa score` for MedAgentBench: rates over graded tasks; what is not graded is said to be so."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_commands import CommandResult
from tests.cli.test_commands import archqa as run

TASKS = ("task1_1", "task3_1", "task7_1", "task10_1")
SECRET = "He confided this to the nurse"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(
        tmp_path / "tasks.json",
        [{"id": task, "instruction": "Do.", "eval_MRN": "S1"} for task in TASKS],
    )
    return tmp_path


def write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content))


def scored(folder: Path, rows: Any, *arguments: str) -> CommandResult:
    write(folder / "graded.json", rows)
    return run(
        "score", "graded.json", "--key", "tasks.json", "--json", *arguments, cwd=folder
    )


def graded(
    *right: str, tasks: tuple[str, ...] = TASKS, **more: Any
) -> list[dict[str, Any]]:
    return [{"task_id": task, "correct": task in right, **more} for task in tasks]


def test_graded_tasks_become_the_published_rates(folder: Path) -> None:
    report = json.loads(scored(folder, graded("task1_1", "task3_1")).stdout)
    # One of the two queries (tasks 1, 7) and one of the two actions (3, 10).
    assert {
        report["scores"][f"{group}success_rate"] for group in ("", "query_", "action_")
    } == {50}
    assert report["scores"]["by_task"]["task10"] == {"tasks": 1, "success_rate": 0}
    assert set(report["fingerprints"]) == {"submission", "key"}
    assert report["baselines"] == {}


def test_the_clinical_grading_stands_beside(folder: Path) -> None:
    report = json.loads(scored(folder, graded("task1_1", clinical_correct=True)).stdout)
    assert (
        report["scores"]["success_rate"],
        report["scores"]["clinical_success_rate"],
    ) == (
        25,
        100,
    )


def test_doing_nothing_stands_beside_a_result_on_the_300_tasks(folder: Path) -> None:
    tasks = tuple(
        f"task{number}_{index}" for number in range(1, 11) for index in range(1, 31)
    )
    write(folder / "tasks.json", [{"id": task} for task in tasks])
    report = json.loads(scored(folder, graded(*tasks, tasks=tasks)).stdout)
    nothing = report["baselines"]["FINISH([])"]
    # 70 of 300, all of them among the 150 actions (the benchmark's own grader, medagentbench.md B4).
    assert (nothing["success_rate"], nothing["action_success_rate"]) == (
        pytest.approx(100 * 70 / 300),
        pytest.approx(100 * 70 / 150),
    )


def test_a_task_without_a_result_is_wrong_and_told(folder: Path) -> None:
    process = scored(folder, graded("task1_1", tasks=TASKS[:1]))
    assert json.loads(process.stdout)["scores"]["success_rate"] == 25
    assert "3 of 4 cases have no answer" in process.stderr


@pytest.mark.parametrize(
    "content",
    [
        json.dumps({"task1_1": f"[{SECRET!r}]", "task3_1": "[]"}),
        json.dumps([{"task_id": "task1_1", "result": SECRET}]),
    ],
    ids=["submission.json", "rows"],
)
def test_answers_without_their_conversations_get_one_clear_error(
    content: str, folder: Path
) -> None:
    (folder / "results.json").write_text(content)
    process = run("score", "results.json", "--key", "tasks.json", cwd=folder)
    assert process.returncode == 2
    assert "Name the run folder, or its runs.jsonl" in process.stderr
    assert SECRET not in process.stderr


def test_conversations_without_a_record_get_one_clear_error(folder: Path) -> None:
    line = {
        "index": 0,
        "output": {
            "status": "completed",
            "result": "[]",
            "history": [{"role": "agent", "content": SECRET}],
        },
    }
    (folder / "runs.jsonl").write_text(json.dumps(line) + "\n")
    process = run("score", "runs.jsonl", "--key", "tasks.json", cwd=folder)
    assert process.returncode == 2
    assert "--record STORE_OR_URL" in process.stderr
    assert SECRET not in process.stderr


def test_all_malformed_rows_are_listed_at_once_without_their_text(folder: Path) -> None:
    rows = [
        *graded("task1_1"),
        {"task_id": "task1_1", "correct": "yes", "history": SECRET},
        {"task_id": SECRET},
        SECRET,
    ]
    process = scored(folder, rows)
    assert process.returncode == 3
    for message in (
        "task1_1: correct must be",
        "row 5",
        "row 6",
        "task_id task1_1: graded 2 times",
    ):
        assert message in process.stderr
    assert SECRET not in process.stderr


def test_a_malformed_task_file_is_refused_with_all_its_mistakes(folder: Path) -> None:
    write(
        folder / "tasks.json",
        [{"id": "one"}, {"instruction": "Do."}, {"id": "task1_1"}, {"id": "task1_1"}],
    )
    process = scored(folder, graded())
    assert process.returncode == 3
    assert process.stderr.count("tasks.json:") + process.stderr.count("$.id") >= 3
    assert "task1_1' stands in an earlier task too" in process.stderr
