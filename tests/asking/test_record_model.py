"""Questions to a record that a model's planner reads: queries, judgements, hand-over to code."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import archqa
from archqa.agents import sandbox
from archqa.asking.answer import Answer, Status
from archqa.asking.record_model import NOT_VERIFIED
from archqa.fhir import Store
from archqa.llm.scripted import ScriptedModel, ScriptedReply
from archqa.settings import load_settings
from tests.fakes.replies import tool_call_reply
from tests.fhir.invented import patient, write_ndjson
from tests.query.clinic import clinic_record, result

UNREAD = "Pray, the sundry particulars?"
"""A question that the grammar cannot read."""

REASON = "No query finds the longest run of days."
HAND_OVER = json.dumps({"not_in_language": REASON})
RETRIEVE = tool_call_reply(
    (
        "get_resources_by_patient_fhir_id",
        {"resource_type": "Observation", "patient_fhir_id": "p"},
    )
)
CODE = tool_call_reply(
    (
        "execute_python_code",
        {"code": "answer = len(retrieved_resources['Observation'])"},
    )
)


IN_ERROR = "entered-in-error"
OTHER = {"reference": "Patient/other"}


@pytest.fixture
def record(tmp_path: Path) -> Path:
    resources = [
        patient("p"),
        *clinic_record(),
        result("k1", "6298-4", "Potassium", "2020-01-02T08:00:00Z", (5.5, "mmol/L")),
        result("k2", "6298-4", "Potassium", "2020-02-02T08:00:00Z", (4.1, "mmol/L")),
        result(
            "k3", "6298-4", "Potassium", "2020-03-02", (9, "mmol/L"), status=IN_ERROR
        ),
        patient("other"),
        {**result("z", "1", "Sodium", "2020-01-01", (1, "1")), "subject": OTHER},
    ]
    path = tmp_path / "record.db"
    with Store.open(path, create=True) as store:
        store.load([write_ndjson(tmp_path / "resources.ndjson", resources)])
    return path


class Asked:
    """The answer to a question, and what the model was asked on the way."""

    def __init__(
        self,
        record: Path,
        *script: ScriptedReply,
        question: str = UNREAD,
        day: str = "2020-06-01 12:00:00",
    ) -> None:
        settings = load_settings(
            typed={"model": "m", "base_url": "http://127.0.0.1:9/v1"},
            assignments=("cache=false",),
        )
        self.model = ScriptedModel(script)
        self.answer: Answer = archqa.ask(
            question,
            patient="p",
            record=record,
            settings=settings,
            scripted=self.model,
            context=f"Assume the current time is {day}.",
        )

    @property
    def prompts(self) -> list[str]:
        return [request.messages[-1].content for request in self.model.asked]


def queries(*fields: dict[str, Any]) -> str:
    return json.dumps({"thought": "t", "queries": list(fields)})


POTASSIUM = {"what": "observation", "concepts": ["potassium"]}


def test_a_question_of_two_parts_is_answered_by_two_queries(record: Path) -> None:
    plan = queries(
        {**POTASSIUM, "when": {"position": "last"}},
        {"what": "allergy", "returns": "name"},
    )
    answer = Asked(record, plan).answer
    assert answer.status is Status.ANSWERED
    assert "4.1" in answer.lines[0].text
    assert answer.lines[0].citations == ("Observation/k2",)
    assert answer.lines[1].citations == ("AllergyIntolerance/y",)
    assert answer.query is not None
    assert "potassium" in answer.query
    assert "allergies" in answer.query


def test_the_planner_is_told_card_concepts_and_how_many_queries_it_may_write(
    record: Path,
) -> None:
    asked = Asked(record, queries(POTASSIUM))
    [request] = asked.model.asked
    system = request.messages[0].content
    assert "at most 3" in system
    assert "hemoglobin a1c" in system
    assert "observation: " in asked.prompts[0]


def test_a_concept_may_be_called_by_another_phrase(record: Path) -> None:
    plan = queries(
        {"what": "observation", "concepts": ["K+"], "when": {"position": "last"}}
    )
    assert "4.1" in Asked(record, plan).answer.text


def test_the_time_of_the_question_counts_and_not_the_models(record: Path) -> None:
    spans = {"spans": [{"relation": "since", "ago": {"count": 5, "unit": "month"}}]}
    plan = queries({**POTASSIUM, "when": spans, "now": "2020-03-01T00:00:00"})
    answer = Asked(record, plan).answer
    assert [line.citations for line in answer.lines] == [
        ("Observation/k1",),
        ("Observation/k2",),
    ]


def test_nothing_found_is_told_as_the_grammar_tells_it(record: Path) -> None:
    plan = queries({"what": "medication", "concepts": ["warfarin"], "returns": "name"})
    asked = Asked(record, plan)
    assert asked.answer.status is Status.NOT_FOUND
    assert "No warfarin is recorded" in asked.answer.message
    assert "searched" in asked.answer.message
    assert len(asked.prompts) == 1, (
        "nothing of that name is there to be asked for otherwise"
    )


def test_a_judgement_is_declined_with_its_reason_and_related_facts(
    record: Path,
) -> None:
    related = [{**POTASSIUM, "when": {"position": "last"}}]
    answer = Asked(
        record, json.dumps({"declined": {"kind": "control", "related": related}})
    ).answer
    assert answer.status is Status.DECLINED
    assert answer.message.startswith(
        "Whether something is under control is a clinical judgement"
    )
    assert answer.lines[0].citations == ("Observation/k2",)


def test_what_the_grammar_declines_for_its_own_limits_goes_to_the_planner(
    record: Path,
) -> None:
    plan = queries({**POTASSIUM, "when": {"position": "last"}})
    question = "Is her last potassium above 5?"
    alone = archqa.ask(question, patient="p", record=record)
    assert alone.message.startswith("The query language")
    asked = Asked(record, plan, question=question)
    assert asked.answer.status is Status.ANSWERED
    assert "4.1" in asked.answer.text


def final(text: str, *references: str) -> str:
    resources = f"\nResources: {', '.join(references)}" if references else ""
    return f"I looked. The final answer is: {text}{resources}"


def test_what_no_query_expresses_is_answered_by_code_with_its_citations(
    record: Path,
) -> None:
    script = (
        HAND_OVER,
        RETRIEVE,
        CODE,
        final("Two in a row.", "Observation/k1", "Observation/k2"),
    )
    asked = Asked(record, *script)
    [line] = asked.answer.lines
    assert asked.answer.status is Status.ANSWERED
    assert line.text == "Two in a row."
    assert line.citations == ("Observation/k1", "Observation/k2")
    assert NOT_VERIFIED in asked.answer.remarks
    assert asked.answer.answered_by.reader == "model"


def test_the_code_agent_is_told_the_types_that_the_record_holds(record: Path) -> None:
    asked = Asked(record, HAND_OVER, RETRIEVE, final("Two.", "Observation/k1"))
    system, user = asked.model.asked[1].messages[:2]
    assert "- Observation: 5" in user.content
    assert "- Goal: 1" in user.content
    assert "MIMIC" not in system.content
    assert "Specimen" not in system.content + user.content


IN_JANUARY = "2020-01-15 12:00:00"
LEFT_OUT = "Left out, since dated after the question: 1"


def test_queries_leave_out_what_is_dated_after_the_stated_time(record: Path) -> None:
    plan = queries({**POTASSIUM, "when": {"position": "last"}})
    asked = Asked(record, plan, day=IN_JANUARY)
    [line] = asked.answer.lines
    assert line.citations == ("Observation/k1",)
    assert any(remark.startswith(LEFT_OUT) for remark in asked.answer.remarks)
    assert (
        "Rows dated after it are left out" in asked.model.asked[0].messages[0].content
    )


def test_code_sees_nothing_that_is_dated_after_the_stated_time(record: Path) -> None:
    list_potassium = "answer = [o['id'] for o in retrieved_resources['Observation'] if has_code(o, 'Potassium')]"
    code = tool_call_reply(("execute_python_code", {"code": list_potassium}))
    by_id = {"resource_type": "Observation", "resource_id": "k2"}
    read_later = tool_call_reply(("get_resources_by_resource_id", by_id))
    script = (HAND_OVER, RETRIEVE, code, read_later, final("One.", "Observation/k1"))
    asked = Asked(record, *script, day=IN_JANUARY)
    told = asked.model.asked[1].messages[1].content
    assert (
        "What the record dates after the current time is left out by the tools" in told
    )
    assert "Left out, since dated after the current time: " in asked.prompts[2]
    assert asked.prompts[3] == "{'answer': ['k1']}"
    assert "dated after the current time: left out" in asked.prompts[4]
    assert any("dated after the question" in remark for remark in asked.answer.remarks)
    assert [each.id for each in asked.answer.evidence] == ["Observation/k1"]


def test_without_a_stated_time_nothing_is_left_out(record: Path) -> None:
    answer = archqa.ask("What was her last potassium?", patient="p", record=record)
    assert not any("dated after" in remark for remark in answer.remarks)
    at_a_time = archqa.ask(
        "What was her last potassium?",
        patient="p",
        record=record,
        now=datetime(2020, 1, 15, 12),
    )
    assert at_a_time.lines[0].citations == ("Observation/k1",)
    assert any(remark.startswith(LEFT_OUT) for remark in at_a_time.remarks)


def test_a_citation_that_the_record_does_not_have_is_dropped(record: Path) -> None:
    script = (HAND_OVER, RETRIEVE, final("Two.", "Observation/k1", "Observation/k99"))
    [line] = Asked(record, *script).answer.lines
    assert line.citations == ("Observation/k1",)


@pytest.mark.parametrize(
    "call",
    [
        (
            "get_resources_by_resource_id",
            {"resource_type": "Observation", "resource_id": "z"},
        ),
        (
            "get_resources_by_resource_id",
            {"resource_type": "Patient", "resource_id": "other"},
        ),
        (
            "get_resources_by_patient_fhir_id",
            {"resource_type": "Observation", "patient_fhir_id": "other"},
        ),
    ],
)
def test_the_code_agent_reads_nothing_of_another_patient(
    record: Path, call: tuple[str, dict[str, Any]]
) -> None:
    asked = Asked(
        record, HAND_OVER, tool_call_reply(call), final("One.", "Observation/z")
    )
    assert "patient" in asked.prompts[2]
    assert "error" in asked.prompts[2]
    assert "Sodium" not in asked.prompts[2]
    assert asked.answer.lines == ()


def test_the_code_agent_follows_references_to_what_is_of_no_patient(
    record: Path,
) -> None:
    call = (
        "get_resources_by_resource_id",
        {"resource_type": "Location", "resource_id": "l1"},
    )
    asked = Asked(
        record, HAND_OVER, tool_call_reply(call), final("MICU.", "Location/l1")
    )
    [evidence] = asked.answer.evidence
    assert evidence.id == "Location/l1"
    assert "Intensive Care" in evidence.text


@pytest.mark.parametrize(
    "ending",
    [
        final("Two."),
        final("Two.", "Observation/k99"),
        final("Two.", "Observation/k3"),
        final("Nothing is recorded."),
    ],
)
def test_an_answer_of_code_that_cites_nothing_of_the_record_is_not_shown(
    record: Path, ending: str
) -> None:
    answer = Asked(record, HAND_OVER, RETRIEVE, ending).answer
    assert answer.status is Status.NOT_UNDERSTOOD
    assert answer.lines == ()
    assert REASON.rstrip(".") in answer.message


def test_without_a_sandbox_the_planners_reason_is_told(
    record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "is_installed", lambda: False)
    answer = Asked(record, HAND_OVER).answer
    assert answer.status is Status.NOT_UNDERSTOOD
    assert REASON in answer.message


def test_an_agent_that_comes_to_no_answer_leaves_the_planners_reason(
    record: Path,
) -> None:
    answer = Asked(record, HAND_OVER, *[RETRIEVE] * 12).answer
    assert answer.status is Status.NOT_UNDERSTOOD
    assert REASON in answer.message


def test_an_answer_of_code_cites_at_most_twelve_resources(
    record: Path, tmp_path: Path
) -> None:
    results = [
        result(f"s{place}", "1", "Sodium", "2020-01-01", (1, "1"))
        for place in range(20)
    ]
    with Store.open(record) as store:
        store.load([write_ndjson(tmp_path / "more.ndjson", results)])
    cited = [f"Observation/s{place}" for place in range(20)]
    [line] = Asked(record, HAND_OVER, RETRIEVE, final("Twenty.", *cited)).answer.lines
    assert len(line.citations) == 12


def test_a_free_name_that_nothing_has_is_said_to_be_searched_by_name_alone(
    record: Path,
) -> None:
    plan = queries(
        {"what": "diagnosis", "names": ["Zebra syndrome"], "returns": "time"}
    )
    answer = Asked(record, plan, plan).answer
    assert answer.status is Status.NOT_FOUND
    assert (
        "“Zebra syndrome” was searched by name alone, not by codes." in answer.remarks
    )
    plan = queries({"what": "diagnosis", "concepts": ["gout"], "returns": "time"})
    assert not any(
        "by name" in remark for remark in Asked(record, plan, plan).answer.remarks
    )
