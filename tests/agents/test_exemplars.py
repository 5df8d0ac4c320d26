"""Worked examples: the likest first, cited, and never the case itself under whatever id."""

from pathlib import Path

import pytest

from archqa.agents.exemplars import ExemplarIndex
from archqa.core.case import Case
from archqa.core.key import CaseKey
from archqa.engine import case_digest
from archqa.tasks import load_cases, load_key

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def pairs() -> list[tuple[Case, CaseKey]]:
    keys = load_key(ROOT / "data/dev_key.json").keys
    return [(case, keys[case.id]) for case in load_cases(ROOT / "data/dev.json").notes]


@pytest.fixture(scope="module")
def pool(pairs: list[tuple[Case, CaseKey]]) -> ExemplarIndex:
    return ExemplarIndex(pairs)


def test_no_case_is_ever_its_own_exemplar(
    pool: ExemplarIndex, pairs: list[tuple[Case, CaseKey]]
) -> None:
    for case, _ in pairs:
        shown = pool.nearest(case, len(pool))
        assert case_digest(case) not in {exemplar.digest for exemplar in shown}
        assert len(shown) == len(pool) - 1


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "renamed"},
        {"clinician_question": "Asked otherwise?"},
        {"patient_narrative": "Another message."},
        {"title": "x", "clinical_specialty": "y"},
    ],
    ids=["another id", "another question", "another message over the same note", "other labels"],
)
def test_a_case_in_disguise_is_still_itself(
    changes: dict[str, str], pool: ExemplarIndex, pairs: list[tuple[Case, CaseKey]]
) -> None:
    case = pairs[0][0]
    shown = pool.nearest(case.model_copy(update=changes), len(pool))
    assert case_digest(case) not in {exemplar.digest for exemplar in shown}


def test_the_same_message_with_white_space_and_case_changed_is_the_same(
    pool: ExemplarIndex, pairs: list[tuple[Case, CaseKey]]
) -> None:
    case = pairs[1][0]
    shouted = case.model_copy(
        update={
            "patient_narrative": f"  {case.patient_narrative.upper()}\n",
            "sentences": case.sentences[:3],
        }
    )
    assert case_digest(case) not in {
        exemplar.digest for exemplar in pool.nearest(shouted, len(pool))
    }


def test_the_likest_stands_last_and_shows_its_evidence_and_cited_answer(
    pool: ExemplarIndex, pairs: list[tuple[Case, CaseKey]]
) -> None:
    case = next(case for case, _ in pairs if "carotid" in case.clinician_question)
    shown = pool.nearest(case, 3)
    assert len(shown) == 3
    for exemplar in shown:
        marks = {sentence.mark for sentence in exemplar.sentences}
        assert exemplar.answer.cited
        assert exemplar.answer.cited <= marks
        assert {sentence.label.value for sentence in exemplar.sentences} <= {
            "essential",
            "supplementary",
        }


def test_an_empty_pool_shows_nothing(pairs: list[tuple[Case, CaseKey]]) -> None:
    assert ExemplarIndex([]).nearest(pairs[0][0], 3) == ()
