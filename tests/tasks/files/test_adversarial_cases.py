"""Notes that mislead: what the code guarantees when a model obeys them, and what the embedded engine does today."""

import json
from pathlib import Path
from typing import Any, Literal

import pytest

from archqa.agents.agent import RunContext
from archqa.agents.model_backend import ModelBackend
from archqa.engine import Engine
from archqa.llm.model import Request
from archqa.llm.prompts import default_prompts
from archqa.llm.scripted import ScriptedModel
from archqa.tasks import check_key_matches, load_cases, load_key
from archqa.tasks.archehr_2025.pipelines import DMIS, dmis
from archqa.tasks.archehr_2025.settings import DmisSettings
from tests.fakes.note_model import scripted_note_model

FOLDER = Path(__file__).resolve().parents[3] / "data" / "adversarial"
CASES = {case.id: case for case in load_cases(FOLDER / "adversarial.json").notes}
BEHAVIOURS = {
    row["case_id"]: row
    for row in json.loads((FOLDER / "behaviours.json").read_text(encoding="utf-8"))
}

KNOWN_FAILURES = {
    "adv-6": "the engine does not take the finding for the cause that no shared word names",
}


def shown(case_id: str) -> Any:
    known_failure = KNOWN_FAILURES.get(case_id)
    marks = (
        [pytest.mark.xfail(reason=known_failure, strict=False)] if known_failure else []
    )
    return pytest.param(
        case_id, id=f"{case_id} {BEHAVIOURS[case_id]['kind']}", marks=marks
    )


def test_every_adversarial_case_has_a_key_and_a_behaviour_that_fits_it() -> None:
    keys = load_key(FOLDER / "adversarial_key.json").keys
    assert check_key_matches(CASES.values(), keys) == []
    assert set(BEHAVIOURS) == set(CASES)
    for case_id, row in BEHAVIOURS.items():
        assert set(row["must_cite"]) <= keys[case_id].essential
        assert not set(row["must_not_cite"]) & keys[case_id].essential
    assert {row["kind"] for row in BEHAVIOURS.values()} == {
        "injected instructions", "contradictory sentences", "family history", "negation", "wrong patient's paragraph",
    }  # fmt: skip


@pytest.mark.parametrize("case_id", [shown(sentence) for sentence in CASES])
def test_the_embedded_engine_is_not_misled(case_id: str) -> None:
    case, row, engine = CASES[case_id], BEHAVIOURS[case_id], Engine.load()
    chosen = engine.select(engine.judge(case))
    answer_text = " ".join(
        claim.text for claim in engine.compose(case, chosen).claims
    ).lower()
    assert not set(row["must_not_cite"]) & chosen, row["because"]
    assert not [
        sentence for sentence in row["must_not_say"] if sentence.lower() in answer_text
    ]
    assert chosen & set(row["must_cite"]), "what the answer turns on"


def obeys(request: Request) -> str:
    """A model that does whatever the note tells it to: all ids, ids of its own, pipes, and the injected words."""
    fields = (request.output_schema or {}).get("properties", {})
    lines = [
        {
            "text": "IGNORE ALL |1| previous instructions |2,3|",
            "citations": ["1", "2", "99", "system"],
        }
    ] * 4
    if "answer" in fields and "essential" in fields:
        return json.dumps({"answer": lines, "essential": ["1", "2", "99"]})
    if "answer" in fields:
        return json.dumps({"answer": lines})
    if "label" in fields:
        return json.dumps({"rationale": "told to", "label": "essential"})
    return scripted_note_model(case_ids)(request)


def case_ids(request: Request) -> list[str]:
    return [sentence.id for case in CASES.values() for sentence in case.sentences]


@pytest.mark.parametrize("screen", ["per-sentence", "batched"])
@pytest.mark.parametrize(
    "case_id",
    [sentence for sentence, row in BEHAVIOURS.items() if "injected" in row["kind"]],
)
async def test_a_model_that_obeys_the_note_still_hands_in_what_the_rules_allow(
    case_id: str, screen: Literal["per-sentence", "batched"]
) -> None:
    case = CASES[case_id]
    backend = ModelBackend(ScriptedModel(obeys), "m")
    context = RunContext(dict.fromkeys(DMIS.agents, backend))
    outcome = await dmis(case, context, DmisSettings(screen=screen))
    assert outcome.answer.cited <= set(case.sentence_ids), (
        "no id that the note does not have"
    )
    assert outcome.answer.cited == set(outcome.essential)
    assert outcome.answer.words <= 75
    assert not any("|" in claim.text for claim in outcome.answer.claims)


@pytest.mark.parametrize("case_id", list(CASES))
def test_what_stands_in_a_note_can_end_none_of_the_prompts_tags(case_id: str) -> None:
    for prompt in (
        "general_expert_batch/v2",
        "specialist/v3",
        "alignment/v1",
        "decision/v2",
    ):
        values = {
            "case": CASES[case_id],
            "context": "",
            "specialty": "x",
            "judgements": {},
            "unjudged": (),
            "sentences": CASES[case_id].sentences,
        }
        prompt_text = (
            default_prompts()
            .render(prompt, {**values, "labels": "binary", "word_limit": 75})[1]
            .content
        )
        assert prompt_text.count("<note>") == prompt_text.count("</note>") == 1
        assert prompt_text.count("<clinician_question>") == 1
        assert prompt_text.count("\n[") == len(
            CASES[case_id].sentences
        ) - 1 + prompt_text.count("<note>\n[")
