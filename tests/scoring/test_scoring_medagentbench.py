"""MedAgentBench: the published success rates, computed from graded tasks."""

from itertools import product

import pytest

from scoring import Scores, ScoringError
from scoring.tasks import medagentbench

TASKS = [f"task{number}_{case}" for number, case in product(range(1, 11), (1, 2))]


def graded(*correct: str, **columns: bool) -> list[dict[str, object]]:
    """A row for every task, of which those in `correct` are correct."""
    return [{"task_id": task, "correct": task in correct, **columns} for task in TASKS]


def score(rows: list[dict[str, object]]) -> Scores:
    return medagentbench.score(rows, TASKS, bootstrap=0)


def test_queries_and_actions_are_the_two_groups_of_five() -> None:
    scores = score(graded("task1_1", "task1_2", "task7_1", "task3_1"))
    assert scores.scores == {
        "success_rate": 20,
        "query_success_rate": 30,
        "action_success_rate": 10,
    }


def test_rates_are_broken_down_by_task() -> None:
    table = score(graded("task3_1")).tables["by_task"]
    assert table["task3"] == {"tasks": 2, "success_rate": 50}
    assert len(table) == 10


def test_a_task_without_a_result_is_wrong_with_a_warning() -> None:
    scores = score(graded("task1_1")[:1])
    assert scores.scores["success_rate"] == 5
    assert any("19 of 20" in warning for warning in scores.warnings)


def test_the_clinical_grading_is_reported_next_to_the_official_one() -> None:
    scores = score(graded("task1_1", clinical_correct=True))
    assert scores.scores["clinical_success_rate"] == 100
    assert scores.scores["success_rate"] == 5
    assert scores.tables["by_task"]["task1"]["clinical_success_rate"] == 100


def test_failures_are_counted_by_kind_and_grading() -> None:
    rows = graded("task1_1", clinical_correct=False)
    rows[1] |= {"failure": "answer_mismatch", "clinical_failure": "answer_mismatch"}
    rows[2] |= {"failure": "wrong_endpoint", "clinical_failure": None}
    rows[3] |= {"failure": "answer_mismatch"}
    assert score(rows).tables["by_failure"] == {
        "answer_mismatch": {"official": 2, "clinical": 1},
        "wrong_endpoint": {"official": 1, "clinical": 0},
    }


def test_the_rates_of_doing_nothing_are_a_table_of_baselines() -> None:
    do_nothing = {"FINISH([])": graded("task5_1", "task9_1", "task10_1")}
    scores = medagentbench.score(graded(), TASKS, baselines=do_nothing, bootstrap=0)
    assert scores.tables["baselines"]["FINISH([])"] == {
        "success_rate": 15,
        "query_success_rate": 0,
        "action_success_rate": 30,
    }


def test_malformed_and_duplicate_rows_are_all_listed() -> None:
    row = graded()[0]
    with pytest.raises(ScoringError) as caught:
        score([{"task_id": "5", "correct": True}, row, row])
    assert "row 0: write task_id (like task3_12)" in str(caught.value)
    assert "task1_1: graded 2 times" in str(caught.value)
