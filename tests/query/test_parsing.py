"""The embedded parser reads what clinicians type, and says what it does not understand."""

import inspect
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from archqa.errors import NotUnderstood, Refused
from archqa.fhir import Store
from archqa.query import Query, Span, ValueTest, Visit, When
from archqa.query.grammar import Parser, parse
from tests.fhir.invented import (
    Resource,
    build_store,
    codeable_concept,
    encounter,
    location,
    medication,
    observation,
    patient,
)

SYSTEM = "http://mimic.mit.edu/fhir/mimic/CodeSystem/mimic-"
NOW = "Assume the current time is 2131-12-31 23:59:00."
OBSERVED = {
    "d-labitems": ["Glucose", "Potassium", "Sodium", "Sodium, Urine", "Creatinine", "Hemoglobin", "Lactate", "PT"],
    "chartevents-d-items": [
        "Heart Rate", "Heart rate Alarm - High", "O2 saturation pulseoxymetry", "Daily Weight", "Temperature Celsius",
        "Arterial Blood Pressure systolic", "Potassium", "Respiratory Rate",
    ],
    "d-items": ["Foley", "Void"],
    "microbiology-test": ["URINE CULTURE", "MRSA SCREEN"],
    "microbiology-organism": ["YEAST"],
    "microbiology-antibiotic": ["VANCOMYCIN"],
}  # fmt: skip
DRUGS = (
    "Insulin",
    "Aspirin",
    "Furosemide",
    "Heparin",
    "0.9% Sodium Chloride",
    "Clonidine Patch 0.2 mg/24 hr",
)
PROCEDURES = (
    "Venous catheterization",
    "Continuous invasive mechanical ventilation for less than 96 consecutive hours",
)


def _record() -> list[Resource]:
    found: list[Resource] = [
        patient("p"),
        encounter("h1", "p", "2131-01-01T10:00:00-05:00", "2131-01-05T10:00:00-05:00"),
    ]
    for system, names in OBSERVED.items():
        for at, name in enumerate(names):
            found.append(
                observation(
                    f"o-{system}-{at}",
                    "p",
                    codeable_concept(f"{system}{at}", name, SYSTEM + system),
                )
            )
    for at, name in enumerate(("URINE", "MRSA SCREEN")):
        kind = codeable_concept(str(at), name, SYSTEM + "spec-type-desc")
        found.append(
            {
                "resourceType": "Specimen",
                "id": f"s{at}",
                "type": kind,
                "subject": {"reference": "Patient/p"},
            }
        )
    found += [medication(f"m{at}", name) for at, name in enumerate(DRUGS)]
    for at, name in enumerate(PROCEDURES):
        code = codeable_concept(str(at), name, SYSTEM + "procedure-icd9")
        subject = {"reference": "Patient/p"}
        found.append(
            {
                "resourceType": "Procedure",
                "id": f"q{at}",
                "status": "completed",
                "code": code,
                "subject": subject,
            }
        )
    return [*found, location("w1", "Trauma SICU (TSICU)"), location("w2", "Emergency Department")]


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with build_store(tmp_path_factory.mktemp("parsing"), _record()) as store:
        yield store


def _paraphrases() -> Iterator[tuple[str, str]]:
    meaning = ""
    for line in (
        Path(__file__)
        .with_name("test_parsing_paraphrases.txt")
        .read_text(encoding="utf-8")
        .splitlines()
    ):
        if line.startswith("{"):
            meaning = line
        elif line and not line.startswith("#"):
            yield line, meaning


def read(record: Store, question: str) -> Query:
    return parse(question, NOW, record, "p")


@pytest.mark.parametrize(("question", "meaning"), list(_paraphrases()))
def test_paraphrases_of_one_question_are_one_query(
    record: Store, question: str, meaning: str
) -> None:
    assert read(record, question) == Query(**json.loads(meaning), now="2131-12-31T23:59:00")


@pytest.mark.parametrize("meaning", sorted({meaning for _, meaning in _paraphrases()}))
def test_the_sentence_a_query_prints_is_read_as_that_query(record: Store, meaning: str) -> None:
    query = Query(**json.loads(meaning), now="2131-12-31T23:59:00")
    assert parse(str(query), "", record, "p") == query


@pytest.mark.parametrize(
    ("words", "span"),
    [
        ("in 2100", Span(year=2100)),
        ("in 3/2100", Span(year=2100, month=3)),
        ("in 03/2100", Span(year=2100, month=3)),
        ("in Mar 2100", Span(year=2100, month=3)),
        ("in March of 2100", Span(year=2100, month=3)),
        ("on 2100-03-05", Span(year=2100, month=3, day=5)),
        ("on 03/05/2100", Span(year=2100, month=3, day=5)),
        ("on 5 March 2100", Span(year=2100, month=3, day=5)),
        ("on March 5th, 2100", Span(year=2100, month=3, day=5)),
        ("at 2100-03-05 21:00:00", Span(year=2100, month=3, day=5, clock="21:00:00")),
        ("since 2100", Span(relation="since", year=2100)),
        ("from 2100 onwards", Span(relation="since", year=2100)),
        ("before March 2100", Span(relation="before", year=2100, month=3)),
        ("until 2100", Span(relation="until", year=2100)),
        ("this month", Span(months_back=0)),
        ("on this month/07", Span(months_back=0, day=7)),
        ("on the 5th of last month", Span(months_back=1, day=5)),
        ("in 05/last year", Span(years_back=1, month=5)),
        ("on 12/02/this year", Span(years_back=0, month=12, day=2)),
        ("in December of last year", Span(years_back=1, month=12)),
        ("today", Span(days_back=0)),
        ("yesterday", Span(days_back=1)),
        ("3 days ago", Span(days_back=3)),
        ("the year before last", Span(years_back=2)),
    ],
)
def test_dates_are_read_in_many_forms(record: Store, words: str, span: Span) -> None:
    found = read(record, f"What was the last potassium {words}?")
    assert found.when == When(spans=(span,), position="last")


@pytest.mark.parametrize(
    ("words", "count", "unit"),
    [
        ("since 8 months ago", 8, "month"),
        ("in the last 3 months", 3, "month"),
        ("over the past two years", 2, "year"),
        ("in the past week", 1, "week"),
        ("within the last 24 hours", 24, "hour"),
        ("in the past 24h", 24, "hour"),
        ("since a couple of days ago", 2, "day"),
    ],
)
def test_lengths_of_time_count_back_from_the_clock(
    record: Store, words: str, count: int, unit: str
) -> None:
    spans = read(record, f"max heart rate {words}").when.spans
    assert [(span.relation, span.ago and (span.ago.count, span.ago.unit)) for span in spans] == [
        ("since", (count, unit))
    ]


def test_two_ends_make_a_stretch(record: Store) -> None:
    both = (Span(relation="since", year=2100), Span(relation="until", year=2102))
    assert read(record, "mean sodium between 2100 and 2102").when.spans == both
    assert read(record, "mean sodium from 2100 to 2102").when.spans == both


@pytest.mark.parametrize(
    ("words", "position"),
    [
        *(
            ("first", "first"),
            ("initial", "first"),
            ("earliest", "first"),
            ("2nd", "second"),
            ("third", "third"),
        ),
        *(("latest", "last"), ("most recent", "last"), ("final", "last")),
        *(
            ("penultimate", "second_to_last"),
            ("second to last", "second_to_last"),
            ("next-to-last", "second_to_last"),
        ),
    ],
)
def test_ordinals_are_positions(record: Store, words: str, position: str) -> None:
    assert read(record, f"What was the {words} sodium?").when.position == position


def test_where_the_words_about_time_stand_does_not_matter(record: Store) -> None:
    parts = ["the maximum potassium", "on the first hospital visit", "since 03/2131"]
    found = []
    for seed in range(6):
        random.Random(seed).shuffle(parts)
        found.append(read(record, "What was " + " ".join(parts) + "?"))
    assert len(set(found)) == 1


def test_a_slip_of_the_pen_is_put_right_but_not_in_short_or_distant_words(record: Store) -> None:
    assert read(record, "what was the frist creatinne on the last hosptal visit") == read(
        record, "what was the first creatinine on the last hospital visit"
    )
    assert read(record, "Was prednisolone prescribed?").names == ("prednisolone",)


def test_a_name_that_the_record_does_not_have_is_kept_as_it_was_written(record: Store) -> None:
    found = read(record, "Has the patient been prescribed zolpidem since 2131?")
    assert (found.what, found.names, found.summary) == ("medication", ("zolpidem",), "exists")
    assert read(record, "Did he receive aspirin, zolpidem, or insulin?").names == (
        "Aspirin",
        "Insulin",
        "zolpidem",
    )


def test_numbers_and_ordinals_inside_a_name_are_part_of_it(record: Store) -> None:
    found = read(record, f"Did the patient receive {PROCEDURES[1].lower()} in 2131?")
    assert (found.names, found.value) == ((PROCEDURES[1],), None)
    assert read(record, "was clonidine patch 0.2 mg/24 hr ordered").names == (DRUGS[5],)


def test_the_bare_name_means_the_lab_and_not_the_charted_copy_of_it(record: Store) -> None:
    assert read(record, "what was the last potassium").what == "lab"
    assert read(record, "what was the last systolic bp").names == (
        "Arterial Blood Pressure systolic",
    )


def test_pt_is_a_patient_or_a_lab(record: Store) -> None:
    assert read(record, "has the pt had a lactate").names == ("Lactate",)
    assert read(record, "What was patient 10099999's last PT value?").names == ("PT",)


def test_the_context_names_items_and_the_clock(record: Store) -> None:
    said = "Assume the current time is 2140-12-31 23:59:00. Search for 'Admission Weight' to find weight."
    found = parse("What was the first weight?", said, record, "p")
    assert (found.now, found.names) == ("2140-12-31T23:59:00", ("Admission Weight",))
    total = parse(
        "What amount of insulin was given?",
        "I want the final output to be the sum of the results.",
        record,
        "p",
    )
    assert (total.returns, total.summary, total.now) == ("dose", "sum", None)


def test_a_number_to_hold_values_against_is_no_date(record: Store) -> None:
    found = read(record, "When was the foley output last above 2000?")
    assert (found.value, found.when.spans) == (ValueTest(comparison="greater", number=2000), ())
    assert read(record, "how many times was HR at least 120").value == ValueTest(
        comparison="at_least", number=120
    )


def test_a_visit_about_which_nothing_else_is_asked_is_the_row_itself(record: Store) -> None:
    assert read(record, "how long was the second ICU stay").when == When(position="second")
    inside = read(record, "how many ICU stays during the last hospital admission").when
    assert inside == When(visit=Visit(kind="hospital", which="last"))


@pytest.mark.parametrize(
    ("question", "part"),
    [
        ("What is the prognosis?", "prognosis"),
        ("Was the potassium abnormal without supplements?", "abnormal"),
        ("Should we give him aspirin?", "should"),
        ("Did the frobnicated gribble of quuxes improve the heart rate?", "frobnicated"),
        ("difference between the max and min heart rate", "lowest"),
        ("time between the first and the last sodium", "between"),
        ("how many days since the last discharge from hospital", "discharge"),
    ],
)
def test_what_is_not_understood_is_refused_and_named(
    record: Store, question: str, part: str
) -> None:
    with pytest.raises(NotUnderstood) as refusal:
        read(record, question)
    assert isinstance(refusal.value, Refused)
    assert part in str(refusal.value).lower()
    assert refusal.value.part


def test_a_parser_receives_the_question_its_context_and_the_patient_and_nothing_else() -> None:
    assert list(inspect.signature(Parser.parse).parameters) == [
        "self",
        "question",
        "assumption",
        "patient",
    ]
    assert list(inspect.signature(parse).parameters) == [
        "question",
        "assumption",
        "record",
        "patient",
    ]


def test_the_record_is_asked_for_its_names_once(
    record: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(record, "last sodium?")

    def no_more(*_: object) -> None:
        raise AssertionError("asked again")

    monkeypatch.setattr(Store, "codes", no_more)
    assert read(record, "first creatinine?").names == ("Creatinine",)
