"""Agents at work: what is asked, what is accepted, what is sent back and with which words."""

import json
from typing import Any

import pytest

from archqa.agents.agent import Agent, CaseTask, RunContext
from archqa.agents.answer import (
    CompressionAgent,
    CompressionTask,
    DecisionAgent,
    DecisionTask,
    concatenate_question_and_evidence,
)
from archqa.agents.labelling import (
    BatchLabellingTask,
    GeneralExpertAgent,
    GeneralExpertBatchAgent,
    LabellingTask,
    SentenceLabellingTask,
    SpecialistAgent,
    SpecialistTask,
)
from archqa.agents.model_backend import ModelBackend
from archqa.agents.recruiting import RecruitingAgent, RecruitingTask
from archqa.core.answer import CitedAnswer, Claim
from archqa.core.case import Case, Sentence
from archqa.core.judgement import Judgement, Relevance
from archqa.core.step import Step
from archqa.errors import Refused, Truncated, Unusable
from archqa.llm.scripted import ScriptedModel, ScriptedReply
from tests.fakes.replies import refusal_reply, truncated_reply

CASE = Case(
    id="c",
    patient_narrative="Why was my dad kept so long?",
    clinician_question="Why was the stay prolonged?",
    sentences=(
        Sentence(id="a1", text="Hospital Course:"),
        Sentence(id="a2", text="Fever persisted on day 4."),
        Sentence(id="b", text="Cultures grew E. coli."),
    ),
)


async def perform(
    agent: Agent[Any, Any], task: CaseTask, script: list[ScriptedReply]
) -> tuple[Any, list[Step], ScriptedModel]:
    steps: list[Step] = []
    model = ScriptedModel(script)
    context = RunContext({agent.name: ModelBackend(model, "scripted")}, steps.append)
    return await agent.run(task, context), steps, model


def said(**fields: Any) -> str:
    return json.dumps(fields)


def labels(**by_id: str) -> str:
    return said(
        verdicts=[
            {"rationale": "r", "label": label, "sentence_id": name}
            for name, label in by_id.items()
        ]
    )


def decision(essential: list[str], *lines: tuple[str, list[str]]) -> str:
    return said(
        answer=[{"text": text, "citations": ids} for text, ids in lines],
        essential=essential,
    )


def screening(labels: str = "binary") -> SentenceLabellingTask:
    return SentenceLabellingTask(case=CASE, sentence=CASE.sentences[1], labels=labels)  # type: ignore[arg-type]


DECIDE = DecisionTask(
    case=CASE,
    judgements={
        "general expert": (Judgement(sentence_id="a2", label=Relevance.ESSENTIAL),)
    },
)


async def test_a_usable_reply_is_taken_at_the_first_turn_and_recorded_whole() -> None:
    verdict, steps, model = await perform(
        GeneralExpertAgent(), screening(), [said(rationale="fever", label="essential")]
    )
    assert verdict.label is Relevance.ESSENTIAL
    [step] = steps
    assert (step.agent, step.about, step.backend) == ("general_expert", "a2", "model")
    assert step.parsed == {
        "rationale": "fever",
        "label": "essential",
        "probability": None,
    }
    assert [message["role"] for message in step.messages] == ["system", "user"]
    assert "Fever persisted" in model.asked[0].messages[1].content


async def test_the_schema_leaves_only_the_labels_of_the_variant() -> None:
    _, _, binary = await perform(
        GeneralExpertAgent(), screening(), [said(rationale="", label="essential")]
    )
    _, _, multi = await perform(
        GeneralExpertAgent(),
        screening("multiclass"),
        [said(rationale="", label="supplementary")],
    )
    assert _label_choices(binary) == ["essential", "not-relevant"]
    assert _label_choices(multi) == ["essential", "supplementary", "not-relevant"]


async def test_a_label_outside_the_variant_is_sent_back_with_those_allowed() -> None:
    script: list[ScriptedReply] = [
        said(rationale="", label="supplementary"),
        said(rationale="", label="not-relevant"),
    ]
    verdict, steps, model = await perform(GeneralExpertAgent(), screening(), script)
    assert verdict.label is Relevance.NOT_RELEVANT
    assert "use one of: essential, not-relevant" in steps[0].rejected
    assert "use one of: essential, not-relevant" in model.asked[1].messages[-1].content
    assert [message.role for message in model.asked[1].messages] == [
        "system",
        "user",
        "assistant",
        "user",
    ]


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (labels(a1="essential", a2="essential"), "You left out b."),
        (
            labels(a1="essential", a2="essential", b="essential", z9="essential"),
            "You label z9; the note has only a1, a2, b.",
        ),
        ("no JSON here", "holds no complete JSON object"),
        (said(verdicts="many"), "does not fit the schema"),
    ],
)
async def test_a_specialist_is_told_what_was_wrong_and_what_is_allowed(
    reply: str, words: str
) -> None:
    task = SpecialistTask.from_labels(LabellingTask(case=CASE), "nephrology", {})
    whole = labels(a1="not-relevant", a2="essential", b="essential")
    verdicts, steps, _ = await perform(SpecialistAgent(), task, [reply, whole])
    assert [verdict.sentence_id for verdict in verdicts.verdicts] == ["a1", "a2", "b"]
    assert words in steps[0].rejected


@pytest.mark.parametrize(
    ("agent", "task", "reply", "problems"),
    [
        (
            DecisionAgent(),
            DECIDE,
            decision(["a2", "z9"], ("Fever |a2|.", ["b", "y8"])),
            [
                "You call essential z9;",
                "Your answer cites y8;",
                "Leave citation marks and pipes out",
                "No line cites a2, z9",
                "You cite b, not among the essential",
            ],
        ),
        (
            SpecialistAgent(),
            SpecialistTask.from_labels(LabellingTask(case=CASE), "nephrology", {}),
            labels(a1="supplementary", a2="essential", z9="essential"),
            [
                "The label supplementary is not asked for",
                "You label z9;",
                "You left out b.",
            ],
        ),
        (
            RecruitingAgent(),
            RecruitingTask(case=CASE, most=2),
            said(experts=["nephrology", "nephrology", "astrology"]),
            [
                "Name between 1 and 2 specialties; you name 3.",
                "There is no specialty astrology here",
                "You name a specialty twice",
            ],
        ),
    ],
    ids=["decision", "specialist", "recruiting"],
)
async def test_one_repair_request_lists_all_that_is_wrong_with_a_reply(
    agent: Agent[Any, Any], task: CaseTask, reply: str, problems: list[str]
) -> None:
    model = ScriptedModel([reply] * 3)
    context = RunContext({agent.name: ModelBackend(model, "scripted")})
    await agent.run(task, context)
    repair = model.asked[1].messages[-1].content
    for problem in problems:
        assert problem in repair


async def test_no_stage_is_sent_what_it_does_not_need() -> None:
    """The note goes to recruiting only without a context, the context not to specialists."""
    fields = {"case": CASE, "context": "Stones may block the duct."}
    recruited = said(experts=["nephrology"])
    tasks = [RecruitingTask(**fields), RecruitingTask(case=CASE)]
    prompts = []
    for task in tasks:
        _, _, model = await perform(RecruitingAgent(), task, [recruited])
        prompts.append(model.asked[0].messages[-1].content)
    assert "Fever persisted" not in prompts[0]
    assert "Stones may block" in prompts[0]
    assert "Fever persisted" in prompts[1]
    specialist = SpecialistTask(specialty="nephrology", **fields)
    _, _, model = await perform(SpecialistAgent(), specialist, [labels()])
    prompt = model.asked[0].messages[-1].content
    assert "Fever persisted" in prompt
    assert "Stones may block" not in prompt


async def test_a_specialist_may_let_all_labels_stand() -> None:
    judged = tuple(
        Judgement(sentence_id=id_, label=Relevance.ESSENTIAL)
        for id_ in CASE.sentence_ids
    )
    shown = {"general expert": judged}
    task = SpecialistTask.from_labels(LabellingTask(case=CASE), "nephrology", shown)
    verdicts, _, model = await perform(SpecialistAgent(), task, [said(verdicts=[])])
    assert len(model.asked) == 1
    assert task.corrected(verdicts.judgements()) == judged


async def test_a_sentence_labelled_twice_is_sent_back() -> None:
    twice = said(
        verdicts=[
            {"rationale": "", "label": "essential", "sentence_id": sentence_id}
            for sentence_id in ("a1", "a2", "b", "b")
        ]
    )
    task = SpecialistTask.from_labels(LabellingTask(case=CASE), "nephrology", {})
    _, steps, _ = await perform(
        SpecialistAgent(),
        task,
        [twice, labels(a1="essential", a2="essential", b="essential")],
    )
    assert "more than once b" in steps[0].rejected


async def test_what_is_usable_of_a_specialists_last_reply_is_kept_and_marked() -> None:
    task = SpecialistTask.from_labels(LabellingTask(case=CASE), "nephrology", {})
    partial = labels(a2="essential", z="essential")
    verdicts, steps, _ = await perform(SpecialistAgent(), task, [partial] * 3)
    assert [verdict.sentence_id for verdict in verdicts.verdicts] == ["a2"]
    assert [step.repaired for step in steps] == [False, False, True]


async def test_a_batch_is_asked_only_about_its_own_sentences() -> None:
    task = BatchLabellingTask(case=CASE, sentences=CASE.sentences[:2])
    script: list[ScriptedReply] = [
        labels(a1="essential", b="essential"),
        labels(a1="essential", a2="not-relevant"),
    ]
    verdicts, steps, _ = await perform(GeneralExpertBatchAgent(), task, script)
    assert [verdict.sentence_id for verdict in verdicts.verdicts] == ["a1", "a2"]
    assert "You were not asked about b" in steps[0].rejected


@pytest.mark.parametrize(
    "experts",
    [[], ["cardiology", "Cardiology "], ["a", "b", "c", "d", "e"], ["x" * 80]],
    ids=["none", "twice", "five", "long"],
)
async def test_recruiting_names_one_to_four_specialties_each_once(
    experts: list[str],
) -> None:
    panel, steps, _ = await perform(
        RecruitingAgent(),
        RecruitingTask(case=CASE),
        [said(experts=experts), said(experts=["general surgery"])],
    )
    assert panel.experts == ("general surgery",)
    assert steps[0].rejected


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (
            decision(["a2"], ("Fever lasted.", ["zz"])),
            "Your answer cites zz; the note has only a1, a2, b.",
        ),
        (decision(["zz"], ("Fever lasted.", ["a2"])), "You call essential zz"),
        (decision(["a2", "b"], ("Fever lasted.", ["a2"])), "No line cites b"),
        (
            decision(["a2"], ("Fever lasted.", ["a2", "b"])),
            "You cite b, not among the essential",
        ),
        (
            decision(["a2"], ("Fever lasted |a2|.", ["a2"])),
            "Leave citation marks and pipes out",
        ),
        (decision(["a2"]), "Your answer is empty"),
        (decision(["a2"], ("Fever lasted.", [])), "cites nothing"),
        (decision([], ("Fever lasted.", ["a2"])), "You name no essential sentence"),
    ],
)
async def test_a_decision_must_cite_its_essential_sentences_and_no_others(
    reply: str, words: str
) -> None:
    decided, steps, _ = await perform(
        DecisionAgent(), DECIDE, [reply, decision(["a2"], ("Fever lasted.", ["a2"]))]
    )
    assert decided.as_answer().submission == "Fever lasted. |a2|"
    assert words in steps[0].rejected


async def test_no_invented_citation_survives_a_decision_that_never_gets_it_right() -> (
    None
):
    reply = decision(["zz"], ("Fever | lasted.", ["zz", "b"]), ("Alone.", ["zz"]))
    decided, steps, _ = await perform(DecisionAgent(), DECIDE, [reply] * 3)
    assert decided.as_answer().cited == {"b"}
    assert decided.essential == ("b",)
    assert "|" not in decided.as_answer().claims[0].text
    assert steps[-1].repaired


async def test_a_decision_without_any_real_citation_is_unusable() -> None:
    with pytest.raises(Unusable, match="none of 3 replies"):
        await perform(
            DecisionAgent(), DECIDE, [decision(["zz"], ("Fever lasted.", ["zz"]))] * 3
        )


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (refusal_reply("I will not."), Refused),
        (truncated_reply('{"rationale": "fe'), Truncated),
    ],
    ids=["no", "cut"],
)
async def test_a_refused_or_cut_off_reply_is_asked_for_once_more_and_then_typed(
    line: ScriptedReply, kind: type[Exception]
) -> None:
    good = said(rationale="fever", label="essential")
    verdict, steps, model = await perform(
        GeneralExpertAgent(), screening(), [line, good]
    )
    assert verdict.label is Relevance.ESSENTIAL
    assert steps[0].rejected
    assert model.asked[0].messages == model.asked[1].messages
    with pytest.raises(kind):
        await perform(GeneralExpertAgent(), screening(), [line, line, good])


async def test_compressing_keeps_the_citations_and_the_limit() -> None:
    draft = CitedAnswer(
        claims=(
            Claim(text="word " * 90, citations=("a2",)),
            Claim(text="more", citations=("b",)),
        )
    )
    long = said(answer=[{"text": "word " * 80, "citations": ["a2", "b"]}])
    lossy = said(answer=[{"text": "Fever.", "citations": ["a2"]}])
    good = said(answer=[{"text": "Fever with E. coli.", "citations": ["a2", "b"]}])
    lines, steps, _ = await perform(
        CompressionAgent(), CompressionTask(case=CASE, draft=draft), [long, lossy, good]
    )
    assert lines.as_answer().cited == {"a2", "b"}
    assert "has 80 words; at most 75" in steps[0].rejected
    assert "No line cites b" in steps[1].rejected


def test_the_papers_submitted_form_holds_the_questions_and_the_sentences_with_all_ids_at_the_end() -> (
    None
):
    answer = concatenate_question_and_evidence(CASE, frozenset({"b", "a2"}))
    lines = answer.submission.split("\n")
    assert lines[0] == "Why was my dad kept so long?"
    assert lines[1] == "Why was the stay prolonged?"
    assert lines[2] == "Fever persisted on day 4."
    assert lines[-1] == "Cultures grew E. coli. |a2,b|"


def _label_choices(model: ScriptedModel) -> list[str]:
    schema = model.asked[0].output_schema
    assert schema is not None
    choices = schema["properties"]["label"]["enum"]
    assert isinstance(choices, list)
    return choices
