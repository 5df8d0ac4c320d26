"""Errors name types, keys and places, and never what a note, a question or a reply says."""

import json
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import archqa
from archqa import fhir
from archqa.errors import ArchqaError, CallerError, InputError
from archqa.settings import Settings, load_settings
from tests.asking.test_asking import small_record
from tests.safety import command_line

SECRET = "zweifelsohne"
NOTE = f"{SECRET} was given\nfor {SECRET}."
LONG_NOTE = f"The patient has {SECRET}. " * 20

WRONG_VALUES: dict[str, Any] = {
    "a list of notes": [{"note": SECRET}],
    "an object": {"note": SECRET},
    "a tuple": (SECRET,),
    "a set": {SECRET},
    "the text of a note": NOTE,
    "a long note on one line": LONG_NOTE,
    "text with a null": f"{SECRET}\0",
    "bytes": NOTE.encode(),
    "a class": type(SECRET, (), {}),
}

DOORS: dict[str, Callable[[Any], Any]] = {
    "predict": archqa.predict,
    "predict, out": lambda value: archqa.predict("mini", out=value, pipeline="none"),
    "predict, task": lambda value: archqa.predict("mini", task=value),
    "predict, settings": lambda value: archqa.predict("mini", settings=value),
    "predict, selection": lambda value: archqa.predict("mini", selection=value),
    "predict, a setting": lambda value: archqa.predict("mini", jobs=value),
    "predict, labels": lambda value: archqa.predict("mini", labels=value),
    "load_cases": archqa.load_cases,
    "score": archqa.score,
    "score, task": lambda value: archqa.score("absent", task=value),
    "compare": lambda value: archqa.compare(value, value),
    "Run.open": archqa.Run.open,
    "settings": lambda value: Settings(limits={"jobs": value}),
    "load_settings": lambda value: load_settings(typed={"limits": {"jobs": value}}),
    "load_settings, config": lambda value: load_settings(value),
    "connect": fhir.connect,
    "Store.open": fhir.Store.open,
    "ask": lambda value: archqa.ask("Why?", patient="p", record=value),
    "ask, patient": lambda value: archqa.ask("Why?", patient=value, record=value),
    "ask, now": lambda value: archqa.ask(
        "Why?", patient="p", record="absent", now=value
    ),
}


def everything_in(error: BaseException) -> str:
    """All that a log, a notebook or a crash reporter can read of an error and what led to it."""
    texts = ["".join(traceback.format_exception(error))]
    link: BaseException | None = error
    while link is not None:
        texts += [
            str(link),
            repr(link),
            repr(vars(link)),
            str(getattr(link, "doc", "")),
        ]
        if hasattr(link, "errors"):
            texts.append(repr(link.errors(include_input=False)))
        link = link.__cause__ or link.__context__
    lines = "\n".join(texts).splitlines()
    return "\n".join(line for line in lines if "SECRET" not in line)


@pytest.mark.parametrize("value", WRONG_VALUES.values(), ids=WRONG_VALUES)
@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_a_wrong_value_is_named_by_its_type(
    door: Callable[[Any], Any],
    value: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ArchqaError, ValueError)) as caught:
        door(value)
    assert SECRET not in everything_in(caught.value)


def test_rows_without_a_question_are_refused_without_their_text() -> None:
    with pytest.raises(CallerError, match="no column question") as caught:
        archqa.predict([{"note": SECRET}])
    assert SECRET not in everything_in(caught.value)


@pytest.mark.parametrize("value", [{"note": SECRET}, 3, None, b"x"])
def test_cases_of_a_wrong_type_are_a_wrong_call(value: Any) -> None:
    with pytest.raises(CallerError, match=type(value).__name__):
        archqa.predict(value)


@pytest.mark.parametrize("value", [NOTE, LONG_NOTE])
def test_the_text_of_a_note_is_said_to_be_no_path(value: str) -> None:
    with pytest.raises(InputError, match=f"text of {len(value)} characters"):
        archqa.load_cases(value)


MALFORMED = {
    "cut off": f'[{{"case_id": "1", "note_excerpt": "{SECRET}',
    "a word": f"[{SECRET}]",
    "wrong types": json.dumps(
        [
            {
                "case_id": "1",
                "note_excerpt": [SECRET],
                "sentences": [{"id": SECRET * 9, "text": 1}],
            }
        ]
    ),
    "no list": json.dumps({"case_id": "1", "sentences": SECRET}),
    "broken xml": f"<annotations><case id='1'><{SECRET}</case>",
    "csv": f"question,answer\n{SECRET},{SECRET}",
    "key": json.dumps([{"case_id": "1", "answers": SECRET}]),
    "NaN": f'[{{"case_id": "1", "note": "{SECRET}", "x": NaN}}]',
    "half a character": json.dumps(
        [{"case_id": "1", "note_excerpt": f"{SECRET}\ud800"}]
    ),
}


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".xml", ".csv"])
def test_a_malformed_file_is_not_quoted(text: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"cases{suffix}"
    path.write_text(text)
    for door in (archqa.load_cases, archqa.predict, archqa.score):
        with pytest.raises(ArchqaError) as caught:
            door(path)  # type: ignore[operator]
        assert SECRET * 9 not in str(caught.value)
        assert "JSONDecodeError" not in everything_in(caught.value)
        if SECRET * 9 not in text:
            assert SECRET not in everything_in(caught.value)


def test_a_malformed_settings_file_is_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "archqa.toml"
    path.write_text(f"api_key = {SECRET}\n")
    with pytest.raises(ArchqaError) as caught:
        load_settings(path)
    assert SECRET not in everything_in(caught.value)


def test_an_assignment_that_is_none_is_not_quoted() -> None:
    with pytest.raises(CallerError) as caught:
        load_settings(assignments=[f"api_key:{SECRET}"])
    assert SECRET not in everything_in(caught.value)


def record_without_notes(folder: Path) -> Path:
    """A store of one patient about whom nothing is known."""
    lines = folder / "patient.ndjson"
    lines.write_text('{"resourceType": "Patient", "id": "p2"}\n')
    path = folder / "empty.db"
    with fhir.Store.open(path, create=True) as store:
        store.load([lines])
    return path


QUESTION = f"What was the last {SECRET} glork?"


def test_a_question_that_is_not_understood_is_not_repeated_on_stderr(
    tmp_path: Path,
) -> None:
    record = small_record(tmp_path)
    result = command_line.archqa(
        "ask", QUESTION, "--patient", "p1", "--record", str(record), "-v"
    )
    assert SECRET not in result.stderr
    assert "answer" in result.stderr or result.returncode == 0


def test_what_is_not_understood_is_named_on_stdout_alone(tmp_path: Path) -> None:
    record = record_without_notes(tmp_path)
    command = ("ask", QUESTION, "--patient", "p2", "--record", str(record))
    result = command_line.archqa(*command)
    assert result.returncode == 0
    assert SECRET in result.stdout
    assert SECRET not in result.stderr
    answer = json.loads(command_line.archqa(*command, "--json").stdout)
    assert answer["status"] == "not_understood"
    assert answer["lines"] == []
    assert SECRET in answer["not_understood"][0]


def test_a_wrong_table_of_questions_is_not_quoted(tmp_path: Path) -> None:
    rows = [{"question": SECRET, "note": [SECRET]}, {"question": "", "note": SECRET}]
    for table in (rows, SECRET, {"question": SECRET}, [SECRET]):
        with pytest.raises(CallerError) as caught:
            archqa.ask_many(table)
        assert SECRET not in everything_in(caught.value)
    path = tmp_path / "questions.jsonl"
    path.write_text(f'{{"question": "{SECRET}"}}\n{SECRET}\n')
    out = str(tmp_path / "answers.csv")
    result = command_line.archqa("ask", "--questions", str(path), "--out", out)
    assert result.returncode == 3
    assert "questions.jsonl:1" in result.stderr
    assert "questions.jsonl:2" in result.stderr
    assert SECRET not in result.stderr + result.stdout


@pytest.mark.parametrize(
    ("question", "words"), [(QUESTION, SECRET), ("creatinine last week?", "1 week ago")]
)
def test_the_progress_of_a_run_does_not_repeat_a_question(
    tmp_path: Path, question: str, words: str
) -> None:
    from tests.runs.fhir_questions import COLUMNS

    record = small_record(tmp_path)
    cases = tmp_path / "questions.csv"
    row = {
        "question_id": "q1",
        "question": question,
        "patient_fhir_id": "p1",
        "split": "test",
    }
    values = ",".join(row.get(name, "") for name in COLUMNS)
    cases.write_text(f"{','.join(COLUMNS)}\n{values}\n")
    out = tmp_path / "run"
    result = command_line.archqa(
        "predict", str(cases), "--record", str(record), "--out", str(out), "-v"
    )
    assert words not in result.stderr
    assert "case q1" in result.stderr
    assert "`archqa show` says more" in result.stderr
    assert words in archqa.Run.open(out).records[0].error


def test_an_empty_note_and_a_wrong_one_are_refused_without_their_text() -> None:
    for value in WRONG_VALUES.values():
        if isinstance(value, str):
            continue
        for question, note in ((value, "A note."), ("Why?", value)):
            with pytest.raises(CallerError) as caught:
                archqa.ask(question, note, settings=Settings())
            assert SECRET not in everything_in(caught.value)
