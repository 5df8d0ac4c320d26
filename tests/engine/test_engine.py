import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from archqa.core.case import Case, Sentence
from archqa.core.judgement import Judgement, Relevance
from archqa.engine import Engine, case_digest, fitted_on
from archqa.errors import CallerError, InputError

from .conftest import NOTE, make_case


def test_there_is_one_judgement_a_sentence_in_note_order(
    engine: Engine, pyelonephritis_case: Case
) -> None:
    judgements = engine.judge(pyelonephritis_case)
    judged_ids = tuple(judgement.sentence_id for judgement in judgements)
    assert judged_ids == pyelonephritis_case.sentence_ids
    for judgement in judgements:
        assert judgement.rationale
        assert judgement.probability is not None
        assert 0 < judgement.probability < 1


def test_essential_sentences_are_those_selected(
    engine: Engine, pyelonephritis_case: Case
) -> None:
    judgements = engine.judge(pyelonephritis_case)
    essential = set()
    for judgement in judgements:
        if judgement.label is Relevance.ESSENTIAL:
            essential.add(judgement.sentence_id)
    assert essential == engine.select(judgements)


def test_the_answer_is_ranked_above_headings_and_social_history(
    engine: Engine, pyelonephritis_case: Case
) -> None:
    judgements = engine.judge(pyelonephritis_case)
    probability = {
        judgement.sentence_id: judgement.probability or 0 for judgement in judgements
    }
    for sentence_id in ("s0", "s4", "s5", "s7"):
        assert probability["s2"] > probability[sentence_id]
    assert "s2" in engine.select(judgements)


def test_the_same_case_gets_the_same_judgements_whatever_came_before(
    engine: Engine, pyelonephritis_case: Case
) -> None:
    judgements = engine.judge(pyelonephritis_case)
    engine._assessments.clear()
    engine.judge(make_case(("Something else.",) * 3))
    assert engine.judge(pyelonephritis_case) == judgements


def test_concurrent_judging_gives_the_same_judgements(engine: Engine) -> None:
    cases = [make_case((*NOTE, f"Her weight was {number} kg.")) for number in range(3)]
    judgements = [engine.judge(case) for case in cases]
    engine._assessments.clear()
    with ThreadPoolExecutor(6) as threads:
        concurrent_judgements = list(threads.map(engine.judge, cases * 2))
    assert concurrent_judgements == judgements * 2


def test_a_case_that_failed_is_tried_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = make_case((*NOTE, "He was seen once more."))

    def failing(case: Case) -> None:
        raise OSError("no memory")

    with monkeypatch.context() as broken:
        broken.setattr(engine, "_compute_assessment", failing)
        with pytest.raises(OSError, match="no memory"):
            engine.judge(case)
    assert len(engine.judge(case)) == len(NOTE) + 1


def test_ids_do_not_change_a_probability(
    engine: Engine, pyelonephritis_case: Case
) -> None:
    renamed_sentences = []
    for sentence in pyelonephritis_case.sentences:
        renamed_sentences.append(sentence.model_copy(update={"id": f"x{sentence.id}"}))
    renamed_case = pyelonephritis_case.model_copy(
        update={"sentences": tuple(renamed_sentences), "id": "another"}
    )
    judgements = engine.judge(pyelonephritis_case)
    renamed_judgements = engine.judge(renamed_case)
    assert len(renamed_judgements) == len(judgements)
    for judgement, renamed in zip(judgements, renamed_judgements, strict=True):
        assert renamed.probability == judgement.probability
        assert renamed.sentence_id == f"x{judgement.sentence_id}"


def test_a_specialist_weighs_sentences_of_the_own_field_more(
    engine: Engine, pyelonephritis_case: Case
) -> None:
    plain = engine.judge(pyelonephritis_case)[2].probability
    by_urologist = engine.judge(pyelonephritis_case, specialty="urology")[2].probability
    assert plain is not None
    assert by_urologist is not None
    assert by_urologist > plain


def test_a_note_without_sentences_gets_no_judgement_and_no_answer(
    engine: Engine,
) -> None:
    empty = make_case(())
    assert engine.judge(empty) == ()
    assert engine.select(()) == frozenset()
    assert engine.compose(empty, frozenset()).claims == ()
    assert engine.specialties(empty)


def test_a_note_of_one_sentence_is_cited(engine: Engine) -> None:
    judgements = engine.judge(make_case((NOTE[2],)))
    assert engine.select(judgements) == {"s0"}


BROKEN = [
    "",
    " ",
    "\x00\x01\ufffd",
    "\ud800 lone surrogate",
    "患者因肺炎入院。",
    "el paciente mejoró",
    "|||",
]


@pytest.mark.parametrize("text", [*BROKEN, "a" * 50_000, "🙂" * 500])
def test_text_that_is_no_english_sentence_is_judged_all_the_same(
    engine: Engine, text: str
) -> None:
    case = make_case((text, *NOTE, text))
    judgements = engine.judge(case)
    answer = engine.compose(case, frozenset(case.sentence_ids))
    assert len(judgements) == len(NOTE) + 2
    assert answer.words <= 75
    assert answer.cited == frozenset(case.sentence_ids)


def test_a_case_without_any_question_is_judged(engine: Engine) -> None:
    case = Case(id="bare", sentences=make_case(NOTE).sentences)
    assert len(engine.judge(case)) == len(NOTE)


@pytest.mark.parametrize("length", [400, pytest.param(2000, marks=pytest.mark.long)])
def test_a_note_of_many_hundred_sentences_is_judged(
    engine: Engine, length: int
) -> None:
    sentence = "On day {} the patient was stable and ate breakfast."
    case = make_case(tuple(sentence.format(day) for day in range(length)))
    chosen = engine.select(engine.judge(case))
    answer = engine.compose(case, chosen)
    assert chosen <= set(case.sentence_ids)
    assert answer.words <= 75


def test_it_loads_within_two_processor_seconds_and_once() -> None:
    started = time.process_time()
    assert Engine.load() is Engine.load("default")
    assert time.process_time() - started < 2


def test_an_engine_that_is_not_shipped_is_named_with_those_that_are() -> None:
    with pytest.raises(InputError, match="default"):
        Engine.load("enormous")


def test_an_unknown_operating_point_is_refused(engine: Engine) -> None:
    judgement = Judgement(sentence_id="1", label=Relevance.ESSENTIAL)
    with pytest.raises(CallerError, match="precision"):
        engine.select((judgement,), "best")


def test_labels_without_probabilities_can_be_selected_from(engine: Engine) -> None:
    labels = [Relevance.ESSENTIAL, Relevance.NOT_RELEVANT, Relevance.ESSENTIAL]
    judgements = []
    for index, label in enumerate(labels):
        judgements.append(Judgement(sentence_id=str(index), label=label))
    assert engine.select(tuple(judgements)) == {"0", "2"}


def test_a_case_without_known_terms_has_a_context_that_says_so(engine: Engine) -> None:
    plain = engine.context(
        Case(id="1", sentences=(Sentence(id="1", text="The dog is well."),))
    )
    assert plain.startswith("No term or abbreviation")


def test_the_context_explains_abbreviations_and_names_its_source(
    engine: Engine,
) -> None:
    case = make_case(("Pt with HTN and CHF was given Lasix.",))
    context = engine.context(case)
    assert "HTN: hypertension (high blood pressure)" in context
    assert "Lasix: furosemide" in context
    assert context.splitlines()[-1].startswith("Source: archqa glossary")


def test_specialties_are_recruited_from_what_is_asked(
    engine: Engine, pyelonephritis_case: Case
) -> None:
    specialties = engine.specialties(pyelonephritis_case)
    assert 1 <= len(specialties) <= 4
    assert {"infectious disease", "urology", "nephrology"} & set(specialties)


def test_the_fingerprint_and_the_cases_it_was_fitted_on_are_digests(
    engine: Engine,
) -> None:
    assert len(engine.fingerprint) == 64
    assert fitted_on()
    assert all(len(digest) == 64 for digest in fitted_on())


def test_a_digest_depends_on_content_and_not_on_ids_or_white_space(
    pyelonephritis_case: Case,
) -> None:
    spaced = pyelonephritis_case.model_copy(
        update={
            "id": "7",
            "patient_narrative": f"  {pyelonephritis_case.patient_narrative}\n",
        }
    )
    other_question = pyelonephritis_case.model_copy(
        update={"clinician_question": "Why?"}
    )
    assert (
        case_digest(spaced)
        == case_digest(pyelonephritis_case)
        != case_digest(other_question)
    )
