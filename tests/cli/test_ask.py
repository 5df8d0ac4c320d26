"""`archqa ask` as a user types it."""

import csv
import json
import re
import stat
import time
from pathlib import Path

import pytest

from archqa.asking.answer import Answer, Status
from archqa.asking.note import answer_by_engine
from archqa.cli.console import shown_when_slow
from archqa.core.case import Case
from tests.asking.test_asking import small_record
from tests.cli.test_commands import archqa
from tests.fakes.server import FakeServer
from tests.fhir.invented import build_store
from tests.fhir.invented import patient as ward_patient

NOTE = "Brief Hospital Course:\nFurosemide was given for fluid overload. His wife drove him home."
KEYS = {
    "question", "status", "answer", "lines", "evidence", "query", "not_understood", "patient",
    "remarks", "related", "answered_by", "calls", "cached_calls", "cost_usd", "understood",
}  # fmt: skip


@pytest.fixture
def note(tmp_path: Path) -> str:
    file = tmp_path / "note.txt"
    file.write_text(NOTE)
    return str(file)


def write_questions(folder: Path, *rows: str) -> str:
    file = folder / "questions.csv"
    file.write_text("\n".join(["id,question,note", *rows, ""]))
    return str(file)


def test_an_answer_is_printed_with_status_citation_and_evidence(note: str) -> None:
    result = archqa("ask", "Why was furosemide given?", "--note", note)
    assert result.returncode == 0
    answer, evidence = result.stdout.split("\n\n")
    assert answer == "Furosemide was given for fluid overload. [1]"
    assert evidence.startswith("[1] 2 (Brief Hospital Course, probability ")
    assert evidence.splitlines()[1] == "Answered"


def test_nearest_passages_stand_apart_from_an_answer(note: str) -> None:
    result = archqa("ask", "What is her shoe size?", "--note", note)
    message, nearest = result.stdout.split("\n\n")
    assert message.startswith("No answer found in the note")
    title, *passages, status = nearest.splitlines()
    assert title == "Nearest passages:"
    assert passages
    for passage in passages:
        assert re.match(r"- [23] \(Brief Hospital Course, probability ", passage)
    assert status == "No answer found in this note"


@pytest.mark.parametrize(
    "question", ["Why was furosemide given?", "What is her shoe size?"]
)
def test_json_has_the_keys_of_the_contract(question: str, note: str) -> None:
    result = archqa("ask", question, "--note", note, "--json")
    answer = json.loads(result.stdout)
    assert result.returncode == 0
    assert set(answer) == KEYS
    assert answer["patient"] is None
    assert {line["id"] for line in answer["evidence"]} == {
        citation for line in answer["lines"] for citation in line["citations"]
    }


def test_no_status_is_a_failure(
    tmp_path: Path, note: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for status in Status:
        answer = Answer(question="Why?", status=status, message="In words.")
        monkeypatch.setattr(
            "archqa.asking.note.answer_by_engine", lambda *_, it=answer: it
        )
        assert archqa("ask", "Why?", "--note", note).returncode == 0
        result = archqa("ask", "Why?", "--note", note, "--json")
        assert (result.returncode, json.loads(result.stdout)["status"]) == (
            0,
            status.value,
        )


def test_a_patient_is_named_with_the_query_in_words(tmp_path: Path) -> None:
    place = ("--patient", "p1", "--record", str(small_record(tmp_path)))
    result = archqa("ask", "What was the last creatinine measured?", *place, "--json")
    answer = json.loads(result.stdout)
    assert answer["patient"] == {"id": "p1", "name": "Ada Example"}
    assert "Observation/o2" in answer["lines"][0]["citations"]
    assert answer["query"]
    then = archqa(
        "ask", "Was creatinine measured today?", *place, "--now", "2150-03-04", "--json"
    )
    assert json.loads(then.stdout)["status"] == "answered"


def test_a_patient_is_named_by_mrn_or_name_and_told_in_the_answer(
    tmp_path: Path,
) -> None:
    people = [
        ward_patient("a", "Bell", identifier=[{"value": "1001"}]),
        ward_patient("b", "Bell"),
    ]
    place = ("--record", str(build_store(tmp_path, people).path))
    question = "When was her last creatinine?"
    found = archqa("ask", question, "--patient", "1001", *place)
    assert found.returncode == 0
    assert "Patient: Ann Bell [a]" in " ".join(found.stdout.split())
    several = archqa("ask", question, "--patient", "Bell, Ann", *place)
    assert several.returncode == 2
    assert "b  Ann Bell, born 1932-12-29" in several.stdout
    assert "Name one by FHIR id" in several.stderr
    assert "Bell" not in several.stderr
    listed = archqa("ask", question, "--patient", "Bell, Ann", *place, "--json")
    candidates = json.loads(listed.stdout)["candidates"]
    assert candidates[0] == {"id": "a", "name": "Ann Bell", "birth_date": "1932-12-29"}


def test_the_patients_of_a_file_are_named_in_each_way(tmp_path: Path) -> None:
    people = [
        ward_patient("a", "Bell", identifier=[{"value": "1001"}]),
        ward_patient("b", "Adams"),
    ]
    store = build_store(tmp_path, people)
    file = tmp_path / "q.csv"
    asked = ["a", "1001", '"Adams, Ann"', "nobody"]
    file.write_text(
        "question,patient\n" + "".join(f"Last sodium?,{name}\n" for name in asked)
    )
    out = tmp_path / "out.jsonl"
    result = archqa(
        "ask", "--questions", str(file), "--out", str(out), "--record", str(store.path)
    )
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["patient"] and row["patient"]["id"] for row in rows] == [
        "a",
        "a",
        "b",
        None,
    ]
    assert "no patient" in rows[3]["error"]
    assert result.returncode == 1


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["Why?"], "not said what to ask"),
        (["Why?", "--patient", "b"], "--record"),
        (["--note", "note.txt"], "--questions FILE"),
        (["Why?", "--questions", "q.csv", "--out", "o.csv"], "one question, or a file"),
        (["--questions", "q.csv"], "--out"),
        (["--questions", "q.csv", "--out", "o.xlsx"], ".csv or .jsonl"),
        (["Why?", "--note", "note.txt", "--out", "o.csv"], "--questions"),
        (["Why?", "--patient", "b", "--record", "r", "--now", "soon"], "2026-11-23"),
        (["Why?", "--note", "note.txt", "--set", "pipeline=dmis"], "no pipeline"),
    ],
)
def test_a_wrong_call_is_told_in_a_sentence(
    words: list[str], advice: str, note: str
) -> None:
    result = archqa("ask", *words, cwd=Path(note).parent)
    assert result.returncode == 2
    assert advice in result.stderr
    assert "Traceback" not in result.stderr


def test_a_file_of_questions_is_answered_row_by_row(tmp_path: Path) -> None:
    questions = write_questions(
        tmp_path, "7,Why was furosemide given?,=Furosemide was given for fluid overload.",
        '8,What is her shoe size?,"The weather is fine.\nThe dog sleeps."',
    )  # fmt: skip
    out = tmp_path / "answers.csv"
    result = archqa("ask", "--questions", questions, "--out", str(out), "--json")
    assert result.returncode == 0, result.stderr
    summary = json.loads(result.stdout)
    assert (summary["questions"], summary["answered"], summary["not_found"]) == (
        2,
        1,
        1,
    )
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [(row["id"], row["status"]) for row in rows] == [
        ("7", "answered"),
        ("8", "not_found"),
    ]
    assert rows[0]["answer"].startswith("'="), "a spreadsheet would compute it"
    assert json.loads(rows[0]["lines"])[0]["citations"] == ["1"]
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "answers.csv",
        "questions.csv",
    ]


def test_all_wrong_rows_of_a_file_are_named(tmp_path: Path) -> None:
    questions = write_questions(
        tmp_path, "1,Why?,A note.", "2,,A note.", "3,Why?,", "4,Why?"
    )
    result = archqa(
        "ask", "--questions", questions, "--out", str(tmp_path / "answers.jsonl")
    )
    assert result.returncode == 3
    for line in (3, 4, 5):
        assert f"questions.csv:{line}: has" in result.stderr
    assert not (tmp_path / "answers.jsonl").exists()


def test_a_note_that_is_named_serves_every_row_without_one(
    tmp_path: Path, note: str
) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"question": "Why was furosemide given?"}\n')
    out = tmp_path / "answers.jsonl"
    words = ("--questions", str(questions), "--note", note, "--out", str(out))
    assert archqa("ask", *words).returncode == 0
    [answer] = [json.loads(line) for line in out.read_text().splitlines()]
    assert answer["answer"] == "Furosemide was given for fluid overload."


def test_what_was_answered_before_an_interruption_is_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def answer(case: Case, *_: object) -> Answer:
        if len(asked) == 2:
            raise KeyboardInterrupt
        asked.append(case.clinician_question)
        return answer_by_engine(case)

    # It would end this process in a few seconds.
    monkeypatch.setattr("archqa.cli.interruption.finish", lambda: None)
    monkeypatch.setattr("archqa.asking.note.answer_by_engine", answer)
    questions = write_questions(
        tmp_path, *(f"{number},Why {number}?,A note." for number in "abc")
    )
    command = ("ask", "--questions", questions, "--out", str(tmp_path / "answers.csv"))
    stopped = archqa(*command)
    assert stopped.returncode == 130
    assert "goes on from there" in stopped.stderr
    [partial] = tmp_path.glob("*.partial")
    assert stat.S_IMODE(partial.stat().st_mode) == 0o600
    partial.write_text(f'{partial.read_text()}{{"key": "half-wr')
    again: list[str] = []

    def go_on(case: Case, *_: object) -> Answer:
        again.append(case.clinician_question)
        return answer_by_engine(case)

    monkeypatch.setattr("archqa.asking.note.answer_by_engine", go_on)
    assert archqa(*command).returncode == 0
    assert again == ["Why c?"]
    rows = list(csv.DictReader((tmp_path / "answers.csv").read_text().splitlines()))
    assert [row["question"] for row in rows] == ["Why a?", "Why b?", "Why c?"]
    assert not partial.exists()


def test_how_much_of_a_long_note_was_read_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("archqa.cli.console.SECONDS_OF_SILENCE", 0.0)
    monkeypatch.setattr("archqa.cli.console.SECONDS_BETWEEN_NOTICES", 0.01)
    shown = ""
    with shown_when_slow("searching the note") as on_progress:
        on_progress(3, 7)
        for _ in range(1000):
            shown += capsys.readouterr().err
            if "searching the note: 3 of 7 passages" in shown:
                return
            time.sleep(0.01)
    pytest.fail(shown)


def test_a_slow_answer_is_said_to_be_in_progress(
    note: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archqa.cli.console.SECONDS_OF_SILENCE", 0.0)
    slow = archqa("ask", "Why was furosemide given?", "--note", note)
    assert "searching the note" in slow.stderr
    quiet = archqa("ask", "Why was furosemide given?", "--note", note, "-q")
    assert quiet.stderr == ""
    monkeypatch.setattr("archqa.cli.console.SECONDS_OF_SILENCE", 60.0)
    fast = archqa("ask", "Why was furosemide given?", "--note", note)
    assert "searching" not in fast.stderr


def test_calls_tokens_and_cost_are_shown_while_a_model_is_waited_for(
    note: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archqa.cli.console.SECONDS_OF_SILENCE", 0.0)
    monkeypatch.setattr("archqa.cli.console.SECONDS_BETWEEN_NOTICES", 0.05)
    with FakeServer("500,first=1,only=note_answer", latency=0.4) as server:
        words = ("ask", "Why was furosemide given?", "--note", note, "--model", "fake")
        result = archqa(
            *(*words, "--base-url", server.base_url, "--set", "cache.enabled=false"),
            *("--set", "retries.first_wait=0.01"),
        )
    assert "searching the note: 0 calls done, 1 pending" in result.stderr
    assert re.search(
        r"[1-9] calls? done, \d pending, 1 sent again; [\d,]+ tokens in, [\d,]+ out; cost unknown",
        result.stderr,
    )


DOWN = ("--model", "fake", "--base-url", "http://127.0.0.1:9/v1", "--set", "tries=1")


def test_a_note_is_answered_by_the_engine_where_the_models_server_is_down(
    note: str,
) -> None:
    words = ("ask", "Why was furosemide given?", "--note", note)
    result = archqa(*words, *DOWN, "--json")
    answer = json.loads(result.stdout)
    assert (result.returncode, answer["status"]) == (0, "answered")
    assert answer["answer"] == "Furosemide was given for fluid overload."
    assert answer["answered_by"]["reader"] == "engine"
    [remark] = answer["remarks"]
    assert remark.startswith("The engine inside archqa answered, since no model could:")


def test_questions_of_a_file_wait_for_a_server_that_is_down(tmp_path: Path) -> None:
    file = write_questions(tmp_path, "1,Why was it given?,It was given for a fever.")
    out = tmp_path / "answers.csv"
    result = archqa("ask", "--questions", file, "--out", str(out), *DOWN)
    assert result.returncode == 4
    assert not out.exists()
    check_options(result.stderr)


def check_options(error: str) -> None:
    """An error of `ask` names no option that `ask` does not have."""
    named = set(re.findall(r"--[a-z-]+", error))
    offered = set(re.findall(r"--[a-z-]+", archqa("ask", "--help").stdout))
    assert named <= offered


@pytest.mark.parametrize(
    ("fault", "settings"),
    [
        ("no-usage", ("--set", "max_cost=0.0001")),
        ("401", ()),
        ("404-model", ()),
        ("only-reasoning,always", ()),
    ],
)
def test_an_error_of_ask_names_only_options_that_ask_has(
    fault: str, settings: tuple[str, ...], note: str
) -> None:
    words = ("ask", "Why was furosemide given?", "--note", note, "--model", "fake")
    with FakeServer(fault) as server:
        result = archqa(*words, "--base-url", server.base_url, *settings)
    assert result.returncode in {1, 4}
    assert result.stderr
    check_options(result.stderr)


def test_without_a_key_the_error_of_ask_names_only_its_options(note: str) -> None:
    words = ("ask", "Why was furosemide given?", "--note", note, "--model", "gpt-4.1")
    result = archqa(*words, OPENAI_API_KEY="")
    assert result.returncode == 4
    assert "leave --model out" in result.stderr
    check_options(result.stderr)


def test_a_session_keeps_the_thread_from_call_to_call(tmp_path: Path) -> None:
    place = ("--patient", "p1", "--record", str(small_record(tmp_path)))
    archqa("ask", "last creatinine?", *place, "--session", "ward")
    result = archqa("ask", "And before that?", "--session", "ward")
    assert "Understood as: last creatinine before 2150-03-04?" in result.stdout
    answer = json.loads(archqa("ask", "show me", "--session", "ward", "--json").stdout)
    assert answer["question"] == "show me"
    assert answer["understood"].startswith("Show the evidence")
    assert answer["lines"][0]["citations"] == ["Observation/o1"]


def test_a_session_is_of_one_patient_until_it_begins_anew(
    tmp_path: Path, note: str
) -> None:
    place = ("--patient", "p1", "--record", str(small_record(tmp_path)))
    archqa("ask", "last creatinine?", *place, "--session", "ward")
    refused = archqa("ask", "Why furosemide?", "--note", note, "--session", "ward")
    assert refused.returncode == 2
    assert "--new-session" in refused.stderr
    begun = archqa(
        "ask", "Why furosemide?", "--note", note, "--session", "ward", "--new-session"
    )
    assert begun.returncode == 0
    dose = archqa("ask", "what dose?", "--session", "ward", "--json")
    assert json.loads(dose.stdout)["understood"] == "What is the dose of furosemide?"


def test_sessions_are_listed_by_patient_and_forgotten(tmp_path: Path) -> None:
    place = ("--patient", "p1", "--record", str(small_record(tmp_path)))
    archqa("ask", "last creatinine?", *place, "--session", "ward")
    assert archqa("ask", "--sessions").stdout == "ward  patient p1\n"
    assert archqa("ask", "--session", "ward", "--forget").returncode == 0
    assert archqa("ask", "--sessions").stdout == ""
    assert archqa("ask", "what dose?", "--session", "ward").returncode == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("--forget",),
        ("Why?", "--session", "ward", "--forget"),
        ("Why?", "--new-session", "--note", "-"),
        ("--questions", "q.csv", "--out", "a.csv", "--session", "ward"),
        ("Why?", "--session", "../ward"),
    ],
)
def test_a_wrong_call_of_a_session_says_what_to_do(arguments: tuple[str, ...]) -> None:
    result = archqa("ask", *arguments)
    assert result.returncode == 2
    assert "session" in result.stderr
