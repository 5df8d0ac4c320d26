"""No message lists more than ten ids: thirty wrong ones at every door, of which ten are named."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from archqa.agents.agent import invented_ids
from archqa.core.case import Case
from archqa.core.judgement import Relevance
from archqa.core.key import CaseKey
from archqa.errors import ArchqaError
from archqa.llm.structured import Rejected
from archqa.query.execution.rows import Row
from archqa.query.wording.support import unconfirmed
from archqa.runs.plan import Selection
from archqa.tasks.keys import check_key_matches
from archqa.tasks.medagentbench.agents import load_functions
from archqa.tasks.medagentbench.write_checks import (
    TaskText,
    WriteContext,
    missing_reads,
)
from scoring.errors import ScoringError
from scoring.tasks import archehr2025
from tests.cli.test_commands import archqa

FAULTY = tuple(f"faulty{number:02}" for number in range(30))

Door = Callable[[Path], object]
"""Returns, prints or raises a message about all faulty ids, given an empty folder."""


def score_what_nobody_answered(folder: Path) -> object:
    return _scored(["1"], ["1", *FAULTY])


def score_answers_to_no_case(folder: Path) -> object:
    return _scored(["1", *FAULTY], ["1"])


def score_labels_of_sentences_that_are_not_there(folder: Path) -> object:
    labels = dict.fromkeys(FAULTY, "essential")
    reference = archehr2025.Reference("1", "Why?", {"1": "Because."}, labels)
    return archehr2025.score([{"case_id": "1", "answer": "Because. |1|"}], [reference])


def score_a_row_of_other_fields(folder: Path) -> object:
    return archehr2025.score(
        [{"case_id": "1", **dict.fromkeys(FAULTY, "")}], [_reference("1")]
    )


def score_on_the_command_line(folder: Path) -> object:
    submission = folder / "submission.json"
    rows = [{"case_id": each, "answer": "Because. |1|"} for each in ("1", *FAULTY)]
    submission.write_text(json.dumps(rows))
    return archqa("score", str(submission), "--data", "data/dev.json").stderr.replace(
        "\n", " "
    )


def match_a_key_without_the_cases(folder: Path) -> object:
    return check_key_matches([Case(id=each) for each in FAULTY], {})


def match_a_key_of_other_cases(folder: Path) -> object:
    return check_key_matches([], {each: CaseKey(case_id=each) for each in FAULTY})


def match_a_key_of_other_sentences(folder: Path) -> object:
    key = CaseKey(case_id="1", labels=dict.fromkeys(FAULTY, Relevance.ESSENTIAL))
    return check_key_matches([Case(id="1")], {"1": key})


def run_cases_that_are_not_there(folder: Path) -> object:
    return Selection(case_ids=FAULTY).positions(["1", "2"])


def predict_cases_that_are_not_there(folder: Path) -> object:
    options = [option for each in FAULTY for option in ("--case", each)]
    arguments = ("predict", "mini", "--pipeline", "embedded", *options)
    return archqa(*arguments, "--out", str(folder / "run")).stderr


def cite_sentences_that_the_note_has_not(folder: Path) -> object:
    return invented_ids(FAULTY, Case(id="1"), "You cite")


def justify_a_write_by_what_was_not_read(folder: Path) -> object:
    task = TaskText("Order a test.", "")
    evidence = tuple(f"Observation/{each}" for each in FAULTY)
    return missing_reads({}, task, WriteContext({}), evidence)


def require_parameters_that_are_not_described(folder: Path) -> object:
    parameters = {"type": "object", "properties": {}, "required": list(FAULTY)}
    function = {
        "name": "GET {api_base}/Condition",
        "description": "Finds.",
        "parameters": parameters,
    }
    path = folder / "functions.json"
    path.write_text(json.dumps([function]))
    return load_functions(path)


def confirm_resources_that_are_not_there(folder: Path) -> object:
    row = Row(refs=tuple(f"Condition/{each}" for each in FAULTY))
    return unconfirmed(row, lambda resource_type, resource_id: None)


@pytest.mark.parametrize(
    "door",
    [
        score_what_nobody_answered,
        score_answers_to_no_case,
        score_labels_of_sentences_that_are_not_there,
        score_a_row_of_other_fields,
        score_on_the_command_line,
        match_a_key_without_the_cases,
        match_a_key_of_other_cases,
        match_a_key_of_other_sentences,
        run_cases_that_are_not_there,
        predict_cases_that_are_not_there,
        cite_sentences_that_the_note_has_not,
        justify_a_write_by_what_was_not_read,
        require_parameters_that_are_not_described,
        confirm_resources_that_are_not_there,
    ],
)
def test_a_message_names_ten_of_thirty_faulty_ids_and_counts_the_rest(
    door: Door, tmp_path: Path
) -> None:
    message = _message(door, tmp_path)
    named = set(re.findall(r"faulty\d\d", message))
    # Some lists hold a name besides the faulty ones, which then is one of the ten.
    assert 9 <= len(named) <= 10, message
    assert re.search(r"and 2[01] more", message), message


def _message(door: Door, folder: Path) -> str:
    try:
        return str(door(folder))
    except (ArchqaError, Rejected, ScoringError) as error:
        return str(error)


def _scored(answered: list[str], in_key: list[str]) -> list[str]:
    submission = [
        {"case_id": case_id, "answer": "Because. |1|"} for case_id in answered
    ]
    references = list(map(_reference, in_key))
    return archehr2025.score(
        submission, references, metrics=["strict_micro_f1"]
    ).warnings


def _reference(case_id: str) -> archehr2025.Reference:
    return archehr2025.Reference(case_id, "Why?", {"1": "Because."}, {"1": "essential"})
