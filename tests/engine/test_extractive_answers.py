import re
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archqa import tasks
from archqa.core.answer import SEE_ALSO
from archqa.core.case import Case, Sentence
from archqa.engine.extractive import compose, sentence_variants
from archqa.errors import CallerError

from .conftest import NOTE, make_case

VOCABULARY = "the patient was started on heparin 5000 units because of a clot ; , and he (see note) improved | fever"
words = st.sampled_from(VOCABULARY.split())
text = st.one_of(
    st.lists(words, max_size=60).map(" ".join),
    st.text(max_size=120),
    st.sampled_from(NOTE),
)
notes = st.lists(text, max_size=30).map(tuple)


def answered(case: Case, chosen: frozenset[str], limit: int = 75):
    return compose(case, chosen, dict.fromkeys(case.sentence_ids, 0.5), limit)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=150)
@given(notes, st.integers(10, 90), st.data())
def test_every_line_is_cited_and_the_words_are_kept_to(texts, limit, data) -> None:
    case = make_case(texts)
    chosen = frozenset(
        data.draw(st.sets(st.sampled_from(case.sentence_ids))) if texts else ()
    )
    answer = answered(case, chosen, limit) if chosen else None
    if answer is None:
        return
    assert answer.words <= limit
    assert answer.claims
    assert all(claim.citations and claim.text.strip() for claim in answer.claims)
    assert answer.cited == chosen
    assert sum(len(claim.citations) for claim in answer.claims) == len(chosen)
    assert all(
        "|" not in claim.text and "\n" not in claim.text for claim in answer.claims
    )
    assert all(claim.text[-1] in ".!?" for claim in answer.claims)


def test_sentences_that_fit_are_said_in_full_in_note_order() -> None:
    case = make_case(NOTE)
    answer = answered(case, frozenset({"s3", "s2"}))
    assert [claim.text for claim in answer.claims] == [NOTE[2], NOTE[3]]
    assert [claim.citations for claim in answer.claims] == [("s2",), ("s3",)]


def test_a_sentence_that_repeats_another_is_cited_on_its_line() -> None:
    long = "The culture of the urine grew E. coli on the second day and again on the third day of the stay here."
    texts = (long, "The heart was normal.", f"Again, {long[0].lower()}{long[1:]}")
    answer = compose(
        make_case(texts),
        frozenset({"s0", "s1", "s2"}),
        {"s0": 0.9, "s1": 0.8, "s2": 0.2},
        26,
    )
    assert [claim.citations for claim in answer.claims] == [("s0", "s2"), ("s1",)]


def answer_with_room_for_one(crowded_out: str) -> list[tuple[str, tuple[str, ...]]]:
    stated = "The culture of urine grew E. coli on day 2 of his stay."
    answer = compose(
        make_case((stated, crowded_out)),
        frozenset({"s0", "s1"}),
        {"s0": 0.9, "s1": 0.3},
        15,
    )
    return [(claim.text, claim.citations) for claim in answer.claims]


@pytest.mark.parametrize(
    "crowded_out",
    [
        "It is not true that the culture of urine grew E. coli on day 2 of his stay.",
        "Of note, the culture of urine grew E. coli on day 12 of his stay, with 2.5 L of fluid given.",
        "The wound was washed by the surgeon and closed with three stitches of silk by noon there.",
    ],
)
def test_no_line_cites_a_sentence_that_does_not_say_it(crowded_out: str) -> None:
    statement, pointer = answer_with_room_for_one(crowded_out)
    assert statement[1] == ("s0",)
    assert pointer == (SEE_ALSO, ("s1",))


def test_the_surest_sentence_has_a_line_even_where_two_doubtful_ones_would_fit() -> (
    None
):
    certain = "Warfarin and aspirin were both stopped by cardiology because blood was found in the stool twice."
    doubtful = ("He lives with his wife at home.", "She drives him to work each day.")
    case = make_case((doubtful[0], certain, doubtful[1]))
    answer = compose(
        case, frozenset(case.sentence_ids), {"s0": 0.5, "s1": 0.98, "s2": 0.5}, 18
    )
    assert [claim.citations for claim in answer.claims] == [("s1",), ("s0", "s2")]


def test_a_sentence_too_long_to_quote_is_pointed_to_and_never_cut() -> None:
    endless = " ".join(f"word{at}" for at in range(300)) + "."
    answer = answered(make_case((endless,)), frozenset({"s0"}))
    assert answer.words <= 75
    assert answer.claims[0].citations == ("s0",)
    assert "word0" not in answer.claims[0].text


def test_numbers_outlive_asides() -> None:
    texts = (
        "On admission, her potassium (measured by the night team) was 2.9, which surprised everyone.",
        NOTE[2],
    )
    answer = answered(make_case(texts), frozenset({"s0", "s1"}), 17)
    shortest = " ".join(claim.text for claim in answer.claims)
    assert "2.9" in shortest
    assert not re.search("surprised|night team", shortest)


NUMBER = re.compile(r"[-+]?\d+(?:[.,/:-]\d+)*")
DATA = Path(__file__).parents[2] / "data"
values = st.one_of(
    st.from_regex(
        r"-?[1-9]\d{0,2}(,\d{3}|\.\d{1,2}|/\d{1,2}/\d{2}|:[0-5]\d|-\d{1,2})?",
        fullmatch=True,
    ),
    st.sampled_from(
        ["38,000", "98.6", "7/22/93", "2/2/93", "1.5-2", "12:30", "-2", "130/80"]
    ),
)
frames = st.sampled_from(
    [
        "{0} mg of it, given at {1}, was enough, {2} was too much.",
        "- {0} L was the balance ({1}) on day {2}.",
        "The count fell to {0}, rose to {1}, and it was {2} at discharge.",
        "Counts {0}, {1} ; platelets of {2}(low)4, no bleeding.",
        "PROBLEM 3: {0} at noon, with a rise to {1}; it then fell, and was {2}.",
    ]
)


def cut_numbers(sentence: str) -> set[str]:
    """The numbers of the variants that the sentence does not have whole."""
    whole = set(NUMBER.findall(sentence))
    shown: set[str] = set()
    for variant in sentence_variants(Sentence(id="1", text=sentence)):
        shown.update(NUMBER.findall(variant.text))
    return shown - whole


@given(frames, st.tuples(values, values, values))
def test_no_variant_has_a_part_of_a_number(
    frame: str, numbers: tuple[str, ...]
) -> None:
    assert not cut_numbers(frame.format(*numbers))


@pytest.mark.parametrize("name", ["dev.json", "train.json", "mini/mini.json"])
def test_no_variant_of_a_sentence_of_the_shipped_cases_cuts_a_number(name: str) -> None:
    for case in tasks.load_cases(DATA / name).notes:
        for sentence in case.sentences:
            assert not cut_numbers(sentence.text), sentence.id


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("98.6 at noon, and the patient was well.", "98.6 at noon"),
        ("1.5 mg of warfarin was resumed.", "1.5 mg"),
        ("12:30 pm potassium was 2.9 in the ED.", "12:30 pm"),
        ("-2 L was the balance of the day.", "-2 L"),
        (
            "Platelet count 38, 000 today, no bleeding was seen by the nurse at night.",
            "38, 000",
        ),
    ],
)
def test_a_value_is_no_list_number(text: str, whole: str) -> None:
    assert all(
        whole in variant.text
        for variant in sentence_variants(Sentence(id="1", text=text))
    )


def test_a_list_number_is_dropped() -> None:
    text = "3) Heparin was started at 5,000 units."
    full = sentence_variants(Sentence(id="1", text=text))[0].text
    assert full == "Heparin was started at 5,000 units."


@pytest.mark.parametrize(
    "text",
    [
        "He had a few beers within an hour of the new a fib.",
        "Influenza a or b was found in a third of them.",
    ],
)
def test_only_articles_without_meaning_are_dropped(text: str) -> None:
    shortest = shortest_variant(text)
    for words_kept in re.findall(r"\ba (?:few|fib|or|third)\b|\ban hour\b", text):
        assert words_kept in shortest


def test_a_list_keeps_what_is_said_of_all_its_items() -> None:
    assert "unremarkable" in shortest_variant(
        "ANCA, anti-GBM, C3/C4, SPEP unremarkable."
    )


def test_a_clause_that_the_next_one_refers_to_does_not_replace_both() -> None:
    text = "Previously he took clopidogrel after a TIA, and this was stopped by his neurologist."
    for variant in sentence_variants(Sentence(id="1", text=text)):
        assert "clopidogrel" in variant.text
        assert "stopped" in variant.text


def test_too_few_words_are_refused() -> None:
    with pytest.raises(CallerError, match="at least 10"):
        answered(make_case(NOTE), frozenset({"s2"}), 9)


@pytest.mark.parametrize(
    "text",
    [
        "An additive effect of the contrast could not be fully excluded, but was judged minor.",
        "Cultures stayed negative although he was febrile for six days on the ward.",
        "The rash was felt to be viral by the dermatologist who saw her on the second day.",
    ],
)
def test_no_wording_drops_one_side_of_a_contrast_or_a_doubt(text: str) -> None:
    for variant in sentence_variants(Sentence(id="1", text=text)):
        assert ("but was judged" in variant.text) == ("but was judged" in text)
        assert ("although" in variant.text) == ("although" in text)
        assert ("felt to be" in variant.text) == ("felt to be" in text)


def shortest_variant(text: str) -> str:
    return sentence_variants(Sentence(id="1", text=text))[-1].text


def test_the_shortest_variant_is_a_complete_span_with_the_heading_of_its_sentence() -> (
    None
):
    shortest = shortest_variant(
        "Renal US: kidneys of 11.2 and 11.0 cm, a simple cyst on the left, mild cortical thinning."
    )
    assert shortest.startswith("Renal US: ")
    assert len(shortest.split()) < 10


@pytest.mark.parametrize(
    ("text", "binding"),
    [
        (
            "There was no evidence of pneumonia, pleural effusion on either side, or acute heart failure.",
            "no evidence",
        ),
        (
            "If the pain returns at night, take one tablet with food, call the clinic the next day.",
            "if pain",
        ),
        (
            "She was thought to have a small stroke, weakness of the left arm for two days.",
            "thought",
        ),
        (
            "His father had a stroke at forty, weakness of the left arm for two days.",
            "father",
        ),
        (
            "Metoprolol was stopped on day three, diltiazem 120 mg daily by mouth.",
            "stopped",
        ),
    ],
)
def test_no_span_loses_the_word_that_negates_doubts_or_conditions_it(
    text: str, binding: str
) -> None:
    assert binding in shortest_variant(text).lower()


@pytest.mark.parametrize(
    "text",
    [
        "Labs drawn that morning, before the scan, already show a creatinine of 3.2.",
        "The culture of the knee, taken in the operating room, grew staphylococcus in two of three bottles.",
    ],
)
def test_a_subject_is_not_parted_from_what_is_said_of_it_after_an_aside(
    text: str,
) -> None:
    shortest = shortest_variant(text)
    assert "creatinine of 3.2" in shortest or "staphylococcus" in shortest


def test_what_is_inferred_from_findings_is_not_left_with_the_normal_one_of_them() -> (
    None
):
    shortest = shortest_variant(
        "On day two the tone was low with a weak suck, no high pitched cry, consistent with encephalopathy."
    )
    assert "tone was low" in shortest
    assert "consistent with encephalopathy" in shortest


@pytest.mark.parametrize(
    ("text", "shortest"),
    [
        ("However, the CRP was elevated.", "The CRP was elevated."),
        (
            "HOSPITAL COURSE: She was given two units of blood.",
            "She was given two units of blood.",
        ),
        ("iCa was 0.86 on arrival.", "iCa was 0.86 on arrival."),
    ],
)
def test_a_line_does_not_refer_to_text_before_it(text: str, shortest: str) -> None:
    assert sentence_variants(Sentence(id="1", text=text))[0].text == shortest


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("Walked 150 ft with PT, who cleared her for home.", "PT"),
        (
            "Hearing will be tested at the clinic at 4, 8 and 12 months, and the family agrees.",
            "4, 8 and 12 months",
        ),
        (
            "She was given fluids and she was admitted to the ward, with her sister at the bedside.",
            "She was given",
        ),
    ],
)
def test_no_wording_breaks_what_belongs_together(text: str, phrase: str) -> None:
    assert all(
        phrase in variant.text
        for variant in sentence_variants(Sentence(id="1", text=text))
    )


def test_a_sentence_of_thousands_of_pieces_is_worded_at_once() -> None:
    began = time.perf_counter()
    assert sentence_variants(
        Sentence(
            id="1", text=", ".join(f"value {at} was {at % 7}" for at in range(3000))
        )
    )
    assert (
        time.perf_counter() - began < 30
    )  # a loaded machine; every pair of pieces would take minutes


def test_the_end_of_a_list_is_no_span() -> None:
    assert "fatigue" in shortest_variant(
        "63F with reflux sent by her doctor after two weeks of fatigue, nausea, low grade temps."
    )


def test_of_a_list_the_abnormal_finding_is_extracted_and_not_the_shortest() -> None:
    assert "2 mm" in shortest_variant(
        "Exam: light perception only, pupil fixed at 2 mm after drops, lids normal."
    )


def test_a_clause_that_depends_on_the_clause_before_does_not_replace_both() -> None:
    assert "recover" in shortest_variant(
        "Most of these recover within several months; a few do not."
    )


def test_more_of_the_evidence_is_said_where_sentences_come_in_pieces() -> None:
    texts = tuple(
        f"Scan {at} of the chest showed a nodule in lobe {at}, mild scarring at the base, old fractures of the ribs."
        for at in range(6)
    )
    answer = answered(make_case(texts), frozenset(f"s{at}" for at in range(6)))
    assert len(answer.claims) == 6
