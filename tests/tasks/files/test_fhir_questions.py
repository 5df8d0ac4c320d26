"""Question files of FHIR-AgentBench: both literals read as literals, every mistake of a file at once."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from archqa.errors import InputError
from archqa.tasks.fhir_agentbench.task import load_questions, parse_numpy_array

ROW = {
    "split": "train",
    "question_id": "q1",
    "question": "How much did patient 7 weigh, last?",
    "assumption": "",
    "patient_fhir_id": "p7",
    "true_answer": "[[70.3]]",
    "true_fhir_ids": "{'Observation': ['o1', 'o2']}",
    "template": "weight of {patient_id}",
}


def table(*changes: Mapping[str, str], without: Sequence[str] = ()) -> bytes:
    """A CSV of one row for each change to ROW."""
    text = io.StringIO()
    writer = csv.DictWriter(
        text, [name for name in ROW if name not in without], extrasaction="ignore"
    )
    writer.writeheader()
    writer.writerows([{**ROW, **change} for change in changes])
    return text.getvalue().encode()


def mistakes(source: bytes) -> tuple[str, ...]:
    with pytest.raises(InputError) as caught:
        load_questions(source)
    return caught.value.mistakes


def test_a_table_is_read_with_its_answers_and_resources() -> None:
    (question,) = load_questions(table({})).questions
    assert (question.question_id, question.patient_fhir_id, question.split) == (
        "q1",
        "p7",
        "train",
    )
    assert question.true_fhir_ids == {"Observation": ("o1", "o2")}
    assert parse_numpy_array(question.true_answer) == [[70.3]]


def test_json_holds_the_same_as_text_or_as_values() -> None:
    as_values = {
        **ROW,
        "true_answer": [[70.3]],
        "true_fhir_ids": {"Observation": ["o1", "o2"]},
    }
    for row in (ROW, as_values):
        assert (
            load_questions(json.dumps([row]).encode()).questions
            == load_questions(table({})).questions
        )


@pytest.mark.parametrize(
    ("printed", "rows"),
    [
        ("[]", []),
        ("[[None]]", [[None]]),
        ("[[nan]]", [[None]]),
        ("[['senna']\n ['heparin']]", [["senna"], ["heparin"]]),
        ("[['senna']\r\n ['heparin']]", [["senna"], ["heparin"]]),
        ("[['2133-05-02 08:00:00']]", [["2133-05-02 08:00:00"]]),
        ("[[-14.]]", [[-14.0]]),
    ],
)  # fmt: skip
def test_a_printed_array_is_read_by_the_benchmarks_rule(
    printed: str, rows: list[Any]
) -> None:
    assert parse_numpy_array(printed) == rows
    assert (
        parse_numpy_array(
            load_questions(table({"true_answer": printed})).questions[0].true_answer
        )
        == rows
    )


@pytest.mark.parametrize(
    "printed",
    [
        "",
        "70.3",
        "[[1]\n ...\n [9]]",
        "[print('x')]",
        "[" * 200_000,
        "[[{}]]",
        "__import__('os').abort()",
    ],
)
def test_what_is_no_array_is_refused_and_never_run(printed: str) -> None:
    with pytest.raises(ValueError, match=r"no printed array|no literal"):
        parse_numpy_array(printed)


def test_every_mistake_of_a_table_is_reported_with_its_line_and_no_record_text() -> (
    None
):
    # Line 2 is good and has an answer of two lines, so that the second row begins on line 4.
    messages = mistakes(
        table(
            {"true_answer": "[['senna']\n ['heparin']]"},
            {"question_id": "", "true_answer": "seventy"},
            {"question": " ", "true_fhir_ids": "{'Observation': 'o1'}"},
            {"question_id": "q9", "true_fhir_ids": "open('/etc/passwd')"},
        )
    )
    assert messages == (
        ":4: question_id is missing or empty.",
        ":4: true_answer is no printed array; it should read like [[70.3]], [['a'], ['b']] or [].",
        ":5: question is missing or empty.",
        ":5: true_fhir_ids is no literal like {'Observation': ['id', 'id']} or {}.",
        ":5: question_id 'q1' stands in an earlier row too; keep one.",
        ":6: true_fhir_ids is no literal like {'Observation': ['id', 'id']} or {}.",
    )
    assert "seventy" not in "".join(messages)


def test_all_absent_columns_are_named_at_once_with_the_nearest_name() -> None:
    messages = mistakes(
        table({}, without=("question_id", "true_fhir_ids")).replace(
            b"true_answer", b"true_answers"
        )
    )
    assert messages == (
        ": there is no column question_id.",
        ": there is no column true_answer; is it 'true_answers'?",
        ": there is no column true_fhir_ids.",
    )


def test_a_field_larger_than_the_csv_modules_limit_is_read_and_the_limit_restored() -> (
    None
):
    before = csv.field_size_limit()
    ids = [f"{number:036d}" for number in range(5000)]
    (question,) = load_questions(
        table({"true_fhir_ids": repr({"Observation": ids})})
    ).questions
    assert len(question.true_fhir_ids["Observation"]) == 5000
    assert csv.field_size_limit() == before


def test_rows_of_another_length_and_open_quotes_are_mistakes() -> None:
    assert mistakes(table({}) + b"only,three,fields\n") == (
        ":3: the row has 3 fields, the head has 8.",
    )
    assert mistakes(table({}) + b'train,"never closed\n')[0].startswith(":3: not CSV")
    assert mistakes(table()) == (": the table has no rows.",)


def test_values_of_another_type_are_mistakes_in_json() -> None:
    row = {**ROW, "question_id": 5, "true_answer": 70.3, "true_fhir_ids": ["o1"]}
    assert len(mistakes(json.dumps([row]).encode())) == 3


def test_the_dev_questions_are_read_whole(shared: Path) -> None:
    questions = load_questions(
        shared / "fhir" / "fhir-agentbench" / "questions_dev.csv"
    ).questions
    assert len(questions) == 2522
    assert sum(not question.true_fhir_ids for question in questions) == 592
    assert (
        len({question.template for question in questions if question.split == "train"})
        == 45
    )
    assert (
        sum(len(parse_numpy_array(question.true_answer)) > 1 for question in questions)
        == 94
    )
