"""MedAgentBench: published rates from graded tasks."""

import pytest

from scoring import ScoringError
from scoring.tasks import medagentbench

TASKS = [f"task{number}_{case}" for number in range(1, 11) for case in (1, 2)]


def graded(*right: str, **more: bool) -> list[dict[str, object]]:
    return [{"task_id": task, "correct": task in right, **more} for task in TASKS]


def test_queries_and_actions_are_the_two_groups_of_five() -> None:
    scores = medagentbench.score(
        graded("task1_1", "task1_2", "task7_1", "task3_1"), TASKS, bootstrap=0
    ).scores
    assert scores == {"success_rate": 20, "query_success_rate": 30, "action_success_rate": 10}


def test_rates_come_by_task() -> None:
    table = medagentbench.score(graded("task3_1"), TASKS, bootstrap=0).tables["by_task"]
    assert table["task3"] == {"tasks": 2, "success_rate": 50}
    assert len(table) == 10


def test_a_task_without_a_result_is_wrong_and_told() -> None:
    scores = medagentbench.score(graded("task1_1")[:1], TASKS, bootstrap=0)
    assert scores.scores["success_rate"] == 5
    assert any("19 of 20" in warning for warning in scores.warnings)


def test_the_clinical_grading_stands_beside_the_official_one() -> None:
    scores = medagentbench.score(graded("task1_1", clinical_correct=True), TASKS, bootstrap=0)
    assert scores.scores["clinical_success_rate"] == 100
    assert scores.scores["success_rate"] == 5
    assert scores.tables["by_task"]["task1"]["clinical_success_rate"] == 100


def test_doing_nothing_is_printed_beside() -> None:
    nothing = {"FINISH([])": graded("task5_1", "task9_1", "task10_1")}
    table = medagentbench.score(graded(), TASKS, baselines=nothing, bootstrap=0).tables["baselines"]
    assert table["FINISH([])"] == {
        "success_rate": 15,
        "query_success_rate": 0,
        "action_success_rate": 30,
    }


def test_malformed_and_doubled_rows_are_listed_at_once() -> None:
    with pytest.raises(ScoringError) as caught:
        medagentbench.score(
            [{"task_id": "5", "correct": True}, *graded()[:1], *graded()[:1]], TASKS
        )
    assert "row 0: write task_id (like task3_12)" in str(caught.value)
    assert "task1_1: graded 2 times" in str(caught.value)
