"""Many questions in one call: one row each, and no row lost because of another."""

import json
from pathlib import Path
from typing import Any

import pandas
import pytest

import archqa
from archqa.errors import CallerError, ServerUnavailable
from archqa.llm.model import Request
from archqa.settings import Settings, load_settings
from tests.asking.scripted import answering, scripted_answers
from tests.asking.test_asking import small_record

NOTE = "Furosemide was given for fluid overload. His wife drove him home."


def no_cache() -> Settings:
    return load_settings(assignments=("cache=off", "jobs=1", "tries=1"))


def statuses(answers: pandas.DataFrame) -> list[str]:
    return list(answers["status"].fillna(""))


def test_every_question_of_a_table_is_answered_in_its_row() -> None:
    table = pandas.DataFrame(
        {
            "id": ["a", "b"],
            "question": ["Why was furosemide given?", "What is her blood type?"],
            "note": [NOTE, "The weather is fine. The dog sleeps."],
        },
        index=[7, 9],
    )
    answers = archqa.ask_many(table)
    assert list(answers.index) == [7, 9]
    assert list(answers["id"]) == ["a", "b"]
    assert list(answers["status"]) == ["answered", "not_found"]
    assert answers["answer"][7] == "Furosemide was given for fluid overload."
    assert answers["lines"][7][0]["citations"] == ["1"]
    assert answers["evidence"][9] == []
    assert list(answers["error"]) == ["", ""]
    assert "note" not in answers


def test_a_row_may_be_about_a_patient(tmp_path: Path) -> None:
    rows = [
        {"question": "What was the last creatinine measured?", "patient": "p1"},
        {"question": "What was the last creatinine measured?", "patient": "p9"},
    ]
    answers = archqa.ask_many(rows, record=small_record(tmp_path))
    assert answers["status"][0] == "answered"
    assert answers["patient"][0] == {"id": "p1", "name": "Ada Example"}
    assert statuses(answers) == ["answered", ""]
    assert "no patient" in answers["error"][1]


def test_all_wrong_rows_are_named_before_any_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("archqa.asking.note.answer_by_engine", pytest.fail)
    rows: list[dict[str, Any]] = [
        {"question": "Why?", "note": NOTE},
        {"question": " ", "note": NOTE},
        {"question": "Why?", "note": float("nan")},
        {"question": "Why?", "patient": "p1"},
        {"question": 3, "note": NOTE},
    ]
    with pytest.raises(CallerError) as caught:
        archqa.ask_many(rows)
    lines = str(caught.value).splitlines()
    assert [line.partition(" has")[0].partition(" names")[0] for line in lines[:-1]] == [
        "Row 2", "Row 3", "Row 4", "Row 5",
    ]  # fmt: skip


def test_a_row_that_fails_does_not_lose_the_others() -> None:
    def reply(request: Request) -> str:
        text = "\n".join(str(message.content) for message in request.messages)
        return (
            "no JSON"
            if "Which one?" in text
            else answering(("Furosemide was given.", "1"))
        )

    rows = [
        {"question": question, "note": NOTE}
        for question in ("Why?", "Which one?", "When?")
    ]
    answers = archqa.ask_many(
        rows, settings=no_cache(), scripted=scripted_answers(reply)
    )
    assert statuses(answers) == ["answered", "", "answered"]
    assert [bool(error) for error in answers["error"]] == [False, True, False]


def test_after_the_servers_failure_no_further_row_is_asked() -> None:
    asked = []

    def reply(_: Request) -> str | Exception:
        asked.append(1)
        if len(asked) > 1:
            return ServerUnavailable("The server is gone.")
        return answering(("Furosemide was given.", "1"))

    rows = [{"question": f"Why ({number})?", "note": NOTE} for number in range(4)]
    answers = archqa.ask_many(
        rows, settings=no_cache(), scripted=scripted_answers(reply)
    )
    assert statuses(answers) == ["answered", "", "", ""]
    assert len(asked) == 2
    assert "Not asked: The server is gone." in answers["error"][3]


def test_a_server_that_lets_no_row_be_answered_is_an_error() -> None:
    model = scripted_answers(lambda _: ServerUnavailable("The server is gone."))
    with pytest.raises(ServerUnavailable):
        archqa.ask_many(
            [{"question": "Why?", "note": NOTE}], settings=no_cache(), scripted=model
        )


def test_an_answer_keeps_whole_lines_within_the_words_wished_for() -> None:
    lines = (("Furosemide was given.", "1"), ("His wife drove him.", "2"))
    model = scripted_answers(lambda _: answering(*lines))
    for max_words, kept, count in ((7, 2, 0), (6, 1, 1), (2, 1, 2)):
        answer = archqa.ask(
            "Why?", NOTE, settings=no_cache(), scripted=model, max_words=max_words
        )
        assert answer.text.splitlines() == [text for text, _ in lines[:kept]]
        assert [line.id for line in answer.evidence] == ["1", "2"][:kept]
        assert len(answer.remarks) == count
    assert "1 line with 4 words" in answer.remarks[0]


def test_a_call_that_names_nothing_to_ask_is_refused() -> None:
    with pytest.raises(CallerError, match="not said what to ask"):
        archqa.ask("Why?")
    with pytest.raises(CallerError, match="record"):
        archqa.ask("Why?", patient="p1")
    with pytest.raises(CallerError, match="2026-11-23"):
        archqa.ask("Why?", patient="p1", record="x", now="yesterday")


def test_an_answer_prints_as_the_contract_says() -> None:
    answer = archqa.ask("Why was furosemide given?", note=NOTE)
    assert set(json.loads(json.dumps(answer.as_json()))) == {
        "question", "status", "answer", "lines", "evidence", "query", "not_understood", "patient",
        "remarks", "related", "answered_by", "calls", "cached_calls", "cost_usd", "understood",
    }  # fmt: skip
