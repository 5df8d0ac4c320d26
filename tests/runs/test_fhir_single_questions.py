"""Single questions to a synthetic FHIR record, without a run folder."""

import json
from pathlib import Path

import archqa
from archqa.asking.answer import Status
from archqa.llm.scripted import ScriptedModel
from archqa.settings import load_settings
from tests.runs.fhir_questions import VISITS


def test_a_single_question_is_answered_with_verified_citations(record: Path) -> None:
    answer = archqa.ask(
        "Count the number of hospital visits.", patient="Patient/p", record=record
    )
    assert answer.status is Status.ANSWERED
    assert str(len(VISITS)) in answer.text
    assert sorted(line.id for line in answer.evidence) == sorted(
        f"Encounter/{visit}" for visit in VISITS
    )
    assert answer.query
    [remark] = answer.remarks
    assert remark.startswith("The record's dates lie in the future (until 2132-")
    assert answer.patient is not None
    assert answer.patient["id"] == "p"


def test_the_current_time_is_used_only_where_the_question_needs_it(
    record: Path,
) -> None:
    ever = archqa.ask(
        "Count the number of hospital visits.", patient="p", record=record
    )
    this_year = archqa.ask(
        "Count the number of hospital visits this year.", patient="p", record=record
    )
    assert "clock" not in str(ever.query)
    assert "clock" in str(this_year.query)


def test_a_question_that_is_not_understood_is_refused(record: Path) -> None:
    answer = archqa.ask(
        "Why did the patient prefer tea to coffee?", patient="p", record=record
    )
    assert answer.status is Status.NOT_UNDERSTOOD
    assert answer.not_understood
    assert answer.lines == ()


def test_the_planner_answers_where_a_model_is_set_up(record: Path) -> None:
    query = {"what": "hospital_visit", "summary": "count"}
    plan = {"thought": "t", "look_up": [], "queries": [query]}
    settings = load_settings(
        typed={"model": "m", "base_url": "http://127.0.0.1:9/v1"},
        assignments=("cache=false",),
    )
    answer = archqa.ask(
        "Visit headcount?",
        patient="p",
        record=record,
        settings=settings,
        scripted=ScriptedModel([json.dumps(plan)]),
    )
    assert answer.query == "How many hospital visits are there?"
    assert str(len(VISITS)) in answer.text
