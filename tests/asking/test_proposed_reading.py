"""With a model, it sees every question about a record: it confirms the grammar's reading, or has another one."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import archqa
from archqa.agents import sandbox
from archqa.asking.answer import Answer, Status
from archqa.errors import ArchqaError, CallerError
from archqa.fhir import Store
from tests.cli.test_commands import archqa as run_command
from tests.fhir.invented import patient, write_ndjson
from tests.query.clinic import clinic_record, result

READ = "What was her last potassium?"
"""A question that the grammar reads."""

UNREAD = "Pray, the sundry particulars?"
JUDGEMENT = "Is her potassium under control?"
POTASSIUM = {"what": "observation", "concepts": ["potassium"]}
FIRST = {**POTASSIUM, "when": {"position": "first"}}


def verdict(
    name: str, reason: str = "It asks for the last value.", **fields: str
) -> str:
    return json.dumps({"reason": reason, "verdict": name, "judgement": "", **fields})


def plan(*queries: dict[str, Any]) -> str:
    return json.dumps({"thought": "t", "queries": list(queries)})


CONFIRMED = verdict("confirmed")
REPLACE = verdict("replace", "The first value is asked for.")


class StrongModel(ThreadingHTTPServer):
    """An OpenAI-compatible server that gives its replies in order, and keeps what it was sent."""

    def __init__(self, *replies: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.replies = list(replies)
        self.bodies: list[dict[str, Any]] = []

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    @property
    def agents(self) -> list[str]:
        """The names of the schemas that replies were asked for."""
        names = []
        for body in self.bodies:
            names.append(body["response_format"]["json_schema"]["name"])
        return names

    def __enter__(self) -> "StrongModel":
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: StrongModel

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.server.bodies.append(json.loads(self.rfile.read(length)))
        message = {"role": "assistant", "content": self.server.replies.pop(0)}
        completion = {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": "strong",
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
        content = json.dumps(completion).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


@pytest.fixture
def record(tmp_path: Path) -> Path:
    resources = [
        patient("p"),
        *clinic_record(),
        result("k1", "6298-4", "Potassium", "2020-01-02T08:00:00Z", (5.5, "mmol/L")),
        result("k2", "6298-4", "Potassium", "2020-02-02T08:00:00Z", (4.1, "mmol/L")),
    ]
    path = tmp_path / "record.db"
    with Store.open(path, create=True) as store:
        store.load([write_ndjson(tmp_path / "resources.ndjson", resources)])
    return path


@pytest.fixture
def chart(record: Path, tmp_path: Path) -> Path:
    """The record with a note that says nothing about potassium."""
    note = {
        "resourceType": "DocumentReference",
        "id": "n",
        "status": "current",
        "subject": {"reference": "Patient/p"},
        "date": "2020-02-03T08:00:00Z",
        "content": [
            {
                "attachment": {
                    "contentType": "text/plain",
                    "data": "U2hlIGZlbGwgYXQgaG9tZS4=",
                }
            }
        ],
    }
    with Store.open(record) as store:
        store.load([write_ndjson(tmp_path / "note.ndjson", [note])])
    return record


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCHQA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("ARCHQA_TRIES", "1")


def ask(
    record: Path, server: StrongModel, question: str = READ, **options: Any
) -> Answer:
    return archqa.ask(
        question,
        patient="p",
        record=record,
        now="2020-06-01T12:00",
        model="strong",
        base_url=server.base_url,
        **options,
    )


def test_a_confirmed_reading_costs_one_call_and_says_who_confirmed_it(
    record: Path,
) -> None:
    alone = archqa.ask(READ, patient="p", record=record, now="2020-06-01T12:00")
    with StrongModel(CONFIRMED) as server:
        answer = ask(record, server)
    assert answer.text == alone.text
    assert answer.query == alone.query
    assert server.agents == ["reading_check"]
    name = f"strong at {server.base_url}"
    printed = answer.as_json()
    assert printed["answered_by"] == {
        "reader": "grammar",
        "model": None,
        "confirmed_by": name,
        "engine": None,
    }
    assert (printed["calls"], printed["cached_calls"]) == (1, 0)
    assert (
        str(answer.answered_by) == f"a query read by the grammar, confirmed by {name}"
    )
    assert f"confirmed by {name}" in answer._repr_html_()


def test_the_terminal_says_who_read_the_question_and_who_confirmed_it(
    record: Path,
) -> None:
    with StrongModel(CONFIRMED) as server:
        url = server.base_url
        options = ("--record", record, "--model", "strong", "--base-url", url)
        printed = run_command("ask", READ, "--patient", "p", *map(str, options))
    assert printed.returncode == 0
    confirmed = f"read by the grammar, confirmed by strong at {url}"
    assert confirmed in printed.stderr


def test_the_model_is_shown_question_time_reading_and_result(record: Path) -> None:
    with StrongModel(CONFIRMED) as server:
        ask(record, server, context="She drinks.")
    prompt = server.bodies[0]["messages"][-1]["content"]
    for part in (READ, "2020-06-01 12:00", "the last", "4.1 mmol/L", "She drinks."):
        assert part in prompt
    assert "5.5" not in prompt


def test_a_model_that_reads_the_context_leaves_no_remark_on_it(record: Path) -> None:
    context = {"context": "She drinks."}
    with StrongModel(CONFIRMED) as server:
        confirmed = ask(record, server, **context)
        first = ask(record, server, grammar="first", **context)
    assert not any("context" in remark for remark in confirmed.remarks)
    assert any("context" in remark for remark in first.remarks)


def test_a_rejected_reading_is_replaced_by_queries_of_the_model(record: Path) -> None:
    with StrongModel(REPLACE, plan(FIRST)) as server:
        answer = ask(record, server)
    assert server.agents == ["reading_check", "planner"]
    [line] = answer.lines
    assert line.citations == ("Observation/k1",)
    assert "5.5 mmol/L" in line.text
    assert answer.query is not None
    assert "first" in answer.query
    assert answer.answered_by.reader == "model"
    assert answer.answered_by.confirmed_by is None
    assert answer.usage.calls == 2


def test_what_no_query_expresses_is_handed_over_without_asking_for_queries(
    record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "is_installed", lambda: False)
    reason = "No query finds the longest run of days."
    with StrongModel(verdict("not_expressible", reason)) as server:
        answer = ask(record, server)
    assert server.agents == ["reading_check"]
    assert answer.status is Status.NOT_UNDERSTOOD
    assert reason in answer.message
    assert answer.answered_by.reader == "model"


def test_a_judgement_that_the_grammar_took_for_a_fact_is_declined_with_its_facts(
    record: Path,
) -> None:
    with StrongModel(verdict("judgement", judgement="amount")) as server:
        answer = ask(record, server)
    assert answer.status is Status.DECLINED
    assert answer.message.startswith("Whether an amount is enough")
    assert answer.lines[0].citations == ("Observation/k2",)
    assert answer.answered_by.reader == "model"
    assert answer.usage.calls == 1


def test_a_judgement_of_an_unknown_kind_is_sent_back_once(record: Path) -> None:
    with StrongModel(verdict("judgement", judgement="weather"), CONFIRMED) as server:
        answer = ask(record, server)
    assert answer.status is Status.ANSWERED
    assert "amount" in server.bodies[1]["messages"][-1]["content"]


@pytest.mark.parametrize("reply", [CONFIRMED, verdict("judgement", judgement="amount")])
def test_a_judgement_that_the_grammar_declines_is_confirmed(
    record: Path, reply: str
) -> None:
    alone = archqa.ask(JUDGEMENT, patient="p", record=record, now="2020-06-01T12:00")
    with StrongModel(reply) as server:
        answer = ask(record, server, JUDGEMENT)
    assert answer.status is Status.DECLINED
    assert answer.text == alone.text
    assert answer.answered_by.confirmed_by is not None


def test_a_judgement_that_is_none_is_answered_by_the_models_queries(
    record: Path,
) -> None:
    with StrongModel(REPLACE, plan(FIRST)) as server:
        answer = ask(record, server, JUDGEMENT)
    assert answer.status is Status.ANSWERED
    assert answer.lines[0].citations == ("Observation/k1",)


def test_an_absence_is_confirmed_too(record: Path) -> None:
    with StrongModel(CONFIRMED) as server:
        answer = ask(record, server, "Is she on warfarin?")
    assert answer.status is Status.NOT_FOUND
    assert "No warfarin is recorded" in server.bodies[0]["messages"][-1]["content"]


def test_what_the_grammar_cannot_read_goes_to_the_planner_at_once(record: Path) -> None:
    with StrongModel(plan(FIRST)) as server:
        answer = ask(record, server, UNREAD)
    assert server.agents == ["planner"]
    assert answer.usage.calls == 1


def test_with_the_grammar_first_a_model_reads_only_what_the_grammar_cannot(
    record: Path,
) -> None:
    with StrongModel(plan(FIRST)) as server:
        read = ask(record, server, grammar="first")
        unread = ask(record, server, UNREAD, grammar="first")
    assert server.agents == ["planner"]
    assert read.usage.calls == 0
    assert read.answered_by.confirmed_by is None
    assert unread.answered_by.reader == "model"


def test_with_the_grammar_off_a_model_reads_every_question(record: Path) -> None:
    with StrongModel(plan(FIRST)) as server:
        answer = ask(record, server, grammar="off")
    assert server.agents == ["planner"]
    assert answer.lines[0].citations == ("Observation/k1",)


@pytest.mark.parametrize("typed", [{}, {"model": "m", "pipeline": "embedded"}])
def test_the_setting_is_refused_where_no_model_reads_anything(
    record: Path, typed: dict[str, str]
) -> None:
    with pytest.raises(CallerError, match="grammar"):
        archqa.ask(READ, patient="p", record=record, grammar="off", **typed)


def test_the_setting_is_refused_for_a_note() -> None:
    with pytest.raises(CallerError, match="grammar"):
        archqa.ask(READ, note="Potassium was 4.1.", grammar="first")


def test_a_cached_confirmation_counts_as_a_cached_call(record: Path) -> None:
    with StrongModel(CONFIRMED) as server:
        ask(record, server)
        again = ask(record, server).as_json()
    assert (again["calls"], again["cached_calls"]) == (0, 1)
    assert again["answered_by"]["confirmed_by"] == f"strong at {server.base_url}"


def test_without_its_server_the_grammars_answer_is_shown_as_unconfirmed(
    record: Path,
) -> None:
    with StrongModel() as server:
        pass
    answer = ask(record, server)
    assert answer.status is Status.ANSWERED
    assert answer.lines[0].citations == ("Observation/k2",)
    assert answer.answered_by.confirmed_by is None
    assert any(
        remark.startswith("No model confirmed how the question was read")
        for remark in answer.remarks
    )
    with pytest.raises(ArchqaError):
        ask(record, server, fallback=False)


def test_a_row_of_a_table_fails_without_the_server_and_can_be_asked_again(
    record: Path,
) -> None:
    with StrongModel() as server:
        pass
    with pytest.raises(ArchqaError):
        archqa.ask_many(
            [{"question": READ, "patient": "p"}],
            record=record,
            model="strong",
            base_url=server.base_url,
        )


def test_a_reply_that_cannot_be_used_leaves_the_grammars_answer(record: Path) -> None:
    with StrongModel(*["I think so."] * 3) as server:
        answer = ask(record, server)
    assert answer.status is Status.ANSWERED
    assert any(remark.startswith("No model confirmed") for remark in answer.remarks)
    assert answer.usage.calls == 2


def test_a_confirmation_has_at_most_600_tokens_beyond_the_question(
    record: Path, tmp_path: Path
) -> None:
    """Of messages and schema; a token is taken for four characters."""
    name = "Comprehensive metabolic panel of an unusually extensive denomination"
    results = []
    for number in range(40):
        time = f"2020-03-{number % 28 + 1:02d}T08:00:00Z"
        results.append(
            result(
                f"m{number}",
                "24323-8",
                name,
                time,
                (number, "milliequivalents per litre"),
            )
        )
    with Store.open(record) as store:
        store.load([write_ndjson(tmp_path / "more.ndjson", results)])
    questions = (
        READ,
        JUDGEMENT,
        "Is she on warfarin?",
        f"What were the last 10 {name} results?",
        "What are her allergies, problems and medications?",
        f"My neighbour said {'she looked pale and ' * 12}weak. What was her last potassium?",
    )
    sizes = []
    for question in questions:
        with StrongModel(CONFIRMED) as server:
            ask(record, server, question)
        [body] = server.bodies
        messages = sum(len(message["content"]) for message in body["messages"])
        schema = len(json.dumps(body["response_format"]["json_schema"]["schema"]))
        sizes.append((messages + schema - len(question)) / 4)
    assert max(sizes) <= 600
    assert max(sizes) > min(sizes) + 50, "no long result was tried"


def test_a_table_of_questions_goes_the_same_way(record: Path) -> None:
    table = [{"question": READ, "patient": "p"}]
    with StrongModel(CONFIRMED) as server:
        answered = archqa.ask_many(
            table, record=record, model="strong", base_url=server.base_url
        )
    assert server.agents == ["reading_check"]
    assert answered["answered_by"][0]["confirmed_by"] == f"strong at {server.base_url}"
    assert answered["calls"][0] == 1


def test_a_follow_up_is_confirmed_as_the_question_that_it_was_understood_as(
    record: Path,
) -> None:
    thread = archqa.Thread()
    with StrongModel(CONFIRMED, CONFIRMED) as server:
        ask(record, server, session=thread)
        answer = ask(record, server, "And in January 2020?", session=thread)
    assert answer.lines[0].citations == ("Observation/k1",)
    prompt = server.bodies[1]["messages"][-1]["content"]
    assert answer.understood is not None
    assert answer.understood in prompt


def test_in_a_chart_the_model_confirms_what_no_note_speaks_of(chart: Path) -> None:
    with StrongModel(CONFIRMED) as server:
        answer = ask(chart, server)
    assert server.agents == ["reading_check"]
    assert answer.answered_by.confirmed_by is not None
    with StrongModel(REPLACE, plan(FIRST)) as server:
        answer = ask(chart, server)
    assert answer.lines[0].citations == ("Observation/k1",)
    assert answer.usage.calls == 2


def test_a_pipeline_that_is_named_keeps_the_confirmation_beside_the_notes(
    chart: Path,
) -> None:
    with StrongModel(CONFIRMED) as server:
        answer = ask(chart, server, pipeline="planner")
    assert answer.usage.calls == 1
    assert answer.answered_by.confirmed_by is not None
