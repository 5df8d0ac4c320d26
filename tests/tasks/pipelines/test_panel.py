"""The panel with scripted minds: who votes, what is chosen, what a lost vote costs, and what a second look may do."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from archqa.agents.agent import Backend, RunContext
from archqa.agents.exemplars import ExemplarIndex
from archqa.agents.model_backend import ModelBackend
from archqa.core.case import Case, Sentence
from archqa.core.judgement import Relevance
from archqa.core.key import CaseKey
from archqa.core.step import Step
from archqa.errors import CallerError, ServerUnavailable, Unusable
from archqa.llm.model import Reply, Request, Token
from archqa.llm.scripted import ScriptedModel, refusal_reply, truncated_reply
from archqa.panel.combiner import Combiner, save
from archqa.panel.decision import parse_voter
from archqa.tasks.archehr_2025.pipelines.panel import AGENTS, panel
from archqa.tasks.archehr_2025.settings import NotePanelSettings
from archqa.tasks.archehr_2026.result import ArchehrResult
from archqa.tasks.pipelines import NoteResult
from tests.fakes.panel import scripted_panel_model

IDS = ("1", "2", "3", "4")
CASE = Case(
    id="c",
    patient_narrative="Why the tube?",
    clinician_question="Why was the tube placed?",
    sentences=tuple(
        Sentence(id=sentence_id, text=f"Sentence number {sentence_id} about the tube.")
        for sentence_id in IDS
    ),
)

Script = Callable[[Request], Any]


async def answered(
    scripts: Mapping[str, Script] | Script,
    case: Case = CASE,
    exemplars: ExemplarIndex | None = None,
    **switches: Any,
) -> tuple[NoteResult, list[Step], list[Request]]:
    """The panel's outcome where each named script is a model that votes in every role; the first does the rest."""
    named = dict(scripts) if isinstance(scripts, Mapping) else {"one": scripts}
    models = {name: ScriptedModel(script) for name, script in named.items()}
    backends: dict[str, Backend] = {
        name: ModelBackend(model, name) for name, model in models.items()
    }
    steps: list[Step] = []
    first_backend = next(iter(backends.values()))
    voting = dict.fromkeys(("general_expert", "specialist", "answer_first"), backends)
    run_context = RunContext(
        dict.fromkeys(AGENTS, first_backend),
        steps.append,
        voting_backends=voting,
        exemplars=exemplars,
    )
    switches = {"engine_vote": False, **switches}
    outcome = await panel(case, run_context, NotePanelSettings(**switches))
    return outcome, steps, [request for model in models.values() for request in model.asked]


@pytest.fixture
def as_stated(tmp_path: Path) -> Path:
    """A combiner that takes the general expert's percentages as they are."""
    path = tmp_path / "combiner.json"
    save(Combiner(weights={"general expert @ one": 1.0}), path)
    return path


def down(_: Request) -> Exception:
    return ServerUnavailable("nobody there")


async def test_every_role_votes_and_the_answer_cites_what_was_chosen() -> None:
    outcome, steps, _ = await answered(scripted_panel_model(["2", "3"]))
    assert set(outcome.judgements) == {
        "general expert @ one",
        "general surgery @ one",
    }
    assert outcome.essential == ("2", "3")
    assert outcome.answer.submission == "It drained the abscess. |2,3|"
    assert outcome.result is None
    agents_called = [step.agent for step in steps]
    assert {name: agents_called.count(name) for name in set(agents_called)} == {
        "context": 1, "general_expert": 1, "recruiting": 1, "specialist": 1, "decision": 1,
    }  # fmt: skip


async def test_answers_are_one_more_voter_each_in_a_call_of_its_own() -> None:
    outcome, steps, _ = await answered(scripted_panel_model(["2", "3"]), answers=2)
    assert [step.agent for step in steps].count("answer_first") == 2
    assert "answer first @ one" in outcome.judgements
    assert outcome.essential == ("2", "3")


async def test_a_voter_that_is_named_votes_though_it_is_off() -> None:
    outcome, _, _ = await answered(
        scripted_panel_model(["2"]), voters="answer_first, embedded engine"
    )
    assert set(outcome.judgements) == {"answer first @ one", "embedded engine"}


async def test_models_for_answers_that_nobody_asked_for_are_remarked() -> None:
    outcome, _, _ = await answered({name: scripted_panel_model(["2"]) for name in "ab"})
    assert "agents.answer_first.models had no effect: answers is 0" in outcome.remarks


async def test_what_is_asked_is_said_on_request() -> None:
    outcome, _, _ = await answered(scripted_panel_model(["2"]), interpret=True)
    assert outcome.result == ArchehrResult(question="Why was the tube placed?")


async def test_each_label_is_a_vote_with_a_probability() -> None:
    outcome, _, _ = await answered(scripted_panel_model(["2"], sure=70, unsure=10))
    by_id = {
        judgement.sentence_id: judgement for judgement in outcome.judgements["general expert @ one"]
    }
    assert (by_id["2"].probability, by_id["1"].probability) == (0.7, 0.1)


async def test_all_models_of_a_role_vote_under_their_names() -> None:
    outcome, _, _ = await answered(
        {"a": scripted_panel_model(["2"]), "b": scripted_panel_model(["2", "4"])}, answers=1
    )
    assert {
        "general expert @ a",
        "general expert @ b",
        "general surgery @ b",
        "answer first @ b",
    } <= set(outcome.judgements)


async def test_the_embedded_engine_is_one_more_voter() -> None:
    outcome, _, _ = await answered(scripted_panel_model(["2"]), engine_vote=True)
    assert len(outcome.judgements["embedded engine"]) == len(IDS)


@pytest.mark.parametrize("dead", ["a", "b", "c"])
async def test_a_voter_whose_server_is_down_costs_its_vote_and_not_the_run(dead: str) -> None:
    scripts: dict[str, Script] = {name: scripted_panel_model(["2", "3"]) for name in "abc"} | {
        dead: down
    }
    outcome, _, _ = await answered(scripts)
    assert outcome.essential == ("2", "3")
    assert outcome.answer.cited == {"2", "3"}
    assert not any(name.endswith(f"@ {dead}") for name in outcome.judgements)
    assert f"the vote of general expert @ {dead} is lost (ServerUnavailable)" in outcome.remarks


async def test_with_no_model_left_the_case_is_lost_and_not_left_to_the_engine() -> None:
    with pytest.raises(ServerUnavailable):
        await answered({"a": down, "b": down}, engine_vote=True)


async def test_a_voter_that_declines_is_remarked() -> None:
    def declines(request: Request) -> Any:
        return (
            refusal_reply()
            if "verdicts" in (request.output_schema or {})["properties"]
            else scripted_panel_model(["2"])(request)
        )

    outcome, _, _ = await answered({"a": scripted_panel_model(["2"]), "b": declines}, answers=1)
    assert "the vote of general surgery @ b is lost (Refused)" in outcome.remarks
    assert "answer first @ b" in outcome.judgements


async def test_one_voter_alone_is_followed() -> None:
    outcome, _, _ = await answered(
        scripted_panel_model(["2", "4"], sure=60, unsure=20), voters="general expert"
    )
    assert outcome.essential == ("2", "4")
    assert set(outcome.judgements) == {"general expert @ one"}


async def test_voters_that_nobody_is_are_refused() -> None:
    with pytest.raises((CallerError, Unusable)):
        await answered(scripted_panel_model(["2"]), voters="nobody")


async def test_a_sentence_above_half_of_the_expected_f_is_taken_and_one_below_is_not(
    as_stated: Path,
) -> None:
    def unsure(request: Request) -> str:
        reply = json.loads(scripted_panel_model(["2"])(request))
        for row in reply.get("verdicts", ()):
            row["percent"] = {"1": 2, "2": 95, "3": 40, "4": 12}[row["sentence_id"]]
        return json.dumps(reply)

    outcome, _, _ = await answered(
        unsure, voters="general expert", verify=False, combiner=as_stated
    )
    assert outcome.essential == ("2", "3"), ".40 is above .62 / 2, .12 is below"


async def test_the_second_look_sees_the_draft_and_may_remove_and_add_close_ones(
    as_stated: Path,
) -> None:
    percentages = {"1": 2, "2": 95, "3": 62, "4": 45}

    def script(request: Request) -> str:
        reply = json.loads(scripted_panel_model(["2", "3"])(request))
        for row in reply.get("verdicts", ()):
            row["percent"] = percentages[row["sentence_id"]]
        for row in reply.get("checks", ()):
            row["keep"] = row["sentence_id"] == "4"
        return json.dumps(reply)

    outcome, _, requests = await answered(
        script, voters="general expert", verify=True, margin=0.2, threshold=0.5, combiner=as_stated
    )
    assert outcome.essential == ("2", "4")
    assert outcome.answer.cited == {"2", "4"}
    verification = next(
        request for request in requests if "checks" in (request.output_schema or {})["properties"]
    )
    offered = verification.output_schema["$defs"]["Check"]["properties"]["sentence_id"]["enum"]  # type: ignore[index]
    assert set(offered) == {"3", "4"}, "the close ones, chosen or not"
    assert "It drained the abscess. (2, 3)" in verification.messages[1].content


async def test_a_second_look_that_would_remove_everything_leaves_the_likeliest(
    as_stated: Path,
) -> None:
    def script(request: Request) -> str:
        reply = json.loads(scripted_panel_model(["2", "3"], sure=70)(request))
        for row in reply.get("verdicts", ()):
            row["percent"] = {"3": 74}.get(row["sentence_id"], row["percent"])
        for row in reply.get("checks", ()):
            row["keep"] = False
        return json.dumps(reply)

    outcome, _, _ = await answered(
        script, voters="general expert", verify=True, margin=0.5, combiner=as_stated
    )
    assert outcome.essential == ("3",)


async def test_what_is_sure_is_not_looked_at_again() -> None:
    _, steps, _ = await answered(scripted_panel_model(["2", "3"], sure=95))
    assert "verification" not in {step.agent for step in steps}


async def test_asking_again_is_another_request_and_warmer() -> None:
    _, _, requests = await answered(
        scripted_panel_model(["2"]), repetitions=3, voters="general expert"
    )
    votes = [
        request for request in requests if "verdicts" in (request.output_schema or {})["properties"]
    ]
    assert len({request.digest for request in votes}) == 3
    assert [request.temperature for request in votes] == [0.0, 0.7, 0.7]


async def test_repetitions_become_one_vote() -> None:
    def wavering(request: Request) -> str:
        return scripted_panel_model(["2"] if request.repetition == 0 else ["2", "3"])(request)

    outcome, _, _ = await answered(wavering, repetitions=3, voters="general expert")
    by_id = {
        judgement.sentence_id: judgement.probability or 0.0
        for judgement in outcome.judgements["general expert @ one"]
    }
    assert by_id["1"] < by_id["3"] < by_id["2"]


async def test_a_note_too_long_for_one_call_is_voted_on_in_halves() -> None:
    def short_of_breath(request: Request) -> Any:
        voting = "verdicts" in (request.output_schema or {})["properties"]
        whole = voting and request.messages[1].content.count("\n[") > 2
        return truncated_reply("{") if whole else scripted_panel_model(["2", "3"])(request)

    outcome, _, _ = await answered(short_of_breath, voters="general expert", context=False)
    assert [
        judgement.sentence_id for judgement in outcome.judgements["general expert @ one"]
    ] == list(IDS)


async def test_token_probabilities_move_a_vote_where_the_server_gives_them() -> None:
    def tells(request: Request) -> Any:
        text = scripted_panel_model(["2", "3"], sure=90)(request)
        if not request.likelihoods:
            return text
        pieces = (
            text.replace('"label": "', '"label": "\0')
            .replace("\0essential", "\0\1ess\0ential")
            .split("\0")
        )
        tokens = [_token(piece) for piece in pieces if piece]
        return Reply(text=text, tokens=tuple(tokens))

    plain, _, _ = await answered(scripted_panel_model(["2", "3"], sure=90), voters="general expert")
    corrected, _, _ = await answered(tells, voters="general expert")
    before, after = (
        next(
            judgement.probability
            for judgement in outcome.judgements["general expert @ one"]
            if judgement.sentence_id == "2"
        )
        for outcome in (plain, corrected)
    )
    assert before == 0.9
    assert after is not None
    assert 0.6 < after < 0.9, "the label was chosen at even odds"


def _token(piece: str) -> Token:
    if piece.startswith("\1"):
        return Token(text=piece[1:], likely={piece[1:]: 0.5, "not": 0.45})
    if piece.startswith("not-relevant"):
        return Token(text=piece, likely={"not": 0.9})
    return Token(text=piece)


async def test_the_question_is_asked_of_the_message_alone() -> None:
    case = CASE.model_copy(update={"clinician_question": "A secret that only the key knows?"})
    _, _, requests = await answered(scripted_panel_model(["2"]), case=case, interpret=True)
    blind = next(
        request for request in requests if "question" in (request.output_schema or {})["properties"]
    )
    prompt_text = "\n".join(message.content for message in blind.messages)
    assert "Why the tube?" in prompt_text
    assert "secret" not in prompt_text
    assert "Sentence number" not in prompt_text


async def test_a_case_without_a_clinicians_question_is_judged_by_the_one_that_was_found() -> None:
    case = CASE.model_copy(update={"clinician_question": ""})
    _, _, requests = await answered(scripted_panel_model(["2"]), case=case)
    judging = next(
        request for request in requests if "verdicts" in (request.output_schema or {})["properties"]
    )
    assert "<clinician_question>\nWhy was the tube placed?" in judging.messages[1].content


async def test_a_dead_writer_is_replaced_by_a_voter_that_lives() -> None:
    def mute(request: Request) -> Any:
        writing = "The chosen sentences:" in request.messages[1].content
        return ServerUnavailable("gone") if writing else scripted_panel_model(["2"])(request)

    outcome, _, _ = await answered({"a": mute, "b": scripted_panel_model(["2"])})
    assert outcome.answer.submission == "It drained the abscess. |2|"
    assert any(remark.startswith("another backend writes the answer") for remark in outcome.remarks)


async def test_worked_examples_are_shown_and_never_the_case_itself() -> None:
    other_case = Case(
        id="other",
        patient_narrative="Why the drain?",
        clinician_question="Why was a drain placed?",
        sentences=(
            Sentence(id="1", text="The drain emptied a pocket of pus."),
            Sentence(id="2", text="Diet as tolerated."),
        ),
    )
    labels = {"1": Relevance.ESSENTIAL, "2": Relevance.NOT_RELEVANT}
    keys = [CaseKey(case_id=case.id, labels=labels) for case in (CASE, other_case)]
    pool = ExemplarIndex(zip((CASE, other_case), keys, strict=True))
    _, _, requests = await answered(scripted_panel_model(["2"]), exemplars=pool, shots=2)
    judging = next(
        request for request in requests if "verdicts" in (request.output_schema or {})["properties"]
    )
    shown = judging.messages[1].content.partition("</exemplars>")[0]
    assert "The drain emptied a pocket of pus." in shown
    assert "Sentence number 1" not in shown


def test_specialists_of_all_fields_are_one_voter_of_their_model() -> None:
    assert parse_voter("general surgery @ m", ("general surgery",)) == "specialist @ m"
    assert parse_voter("general expert @ m", ("general surgery",)) == "general expert @ m"
    assert parse_voter("general surgery", ("general surgery",)) == "specialist"
