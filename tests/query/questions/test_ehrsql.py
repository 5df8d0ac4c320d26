"""The embedded parser reads questions of clinicians, and names what it does not understand."""

import inspect
import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from archqa.errors import NotUnderstood, Refused
from archqa.fhir import Store
from archqa.query import Ago, Query, Span, ValueTest, Visit, When, query_text
from archqa.query.questions.ehrsql import Parser, parse
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
OBSERVATION_NAMES = {
    "d-labitems": [
        "Glucose",
        "Potassium",
        "Sodium",
        "Sodium, Urine",
        "Creatinine",
        "Hemoglobin",
        "Lactate",
        "PT",
    ],
    "chartevents-d-items": [
        "Heart Rate",
        "Heart rate Alarm - High",
        "O2 saturation pulseoxymetry",
        "Daily Weight",
        "Temperature Celsius",
        "Arterial Blood Pressure systolic",
        "Potassium",
        "Respiratory Rate",
    ],
    "d-items": ["Foley", "Void"],
    "microbiology-test": ["URINE CULTURE", "MRSA SCREEN"],
    "microbiology-organism": ["YEAST"],
    "microbiology-antibiotic": ["VANCOMYCIN"],
}
CLONIDINE = "Clonidine Patch 0.2 mg/24 hr"
DRUGS = (
    "Insulin",
    "Aspirin",
    "Furosemide",
    "Heparin",
    "0.9% Sodium Chloride",
    CLONIDINE,
)
VENTILATION = (
    "Continuous invasive mechanical ventilation for less than 96 consecutive hours"
)
PROCEDURES = ("Venous catheterization", VENTILATION)


def _record() -> list[Resource]:
    resources: list[Resource] = [
        patient("p"),
        encounter("h1", "p", "2131-01-01T10:00:00-05:00", "2131-01-05T10:00:00-05:00"),
        location("w1", "Trauma SICU (TSICU)"),
        location("w2", "Emergency Department"),
    ]
    for system, names in OBSERVATION_NAMES.items():
        for index, name in enumerate(names):
            code = codeable_concept(f"{system}{index}", name, SYSTEM + system)
            resources.append(observation(f"o-{system}-{index}", "p", code))
    for index, name in enumerate(DRUGS):
        resources.append(medication(f"m{index}", name))
    for index, name in enumerate(("URINE", "MRSA SCREEN")):
        resources.append(_specimen(str(index), name))
    for index, name in enumerate(PROCEDURES):
        resources.append(_procedure(str(index), name))
    return resources


def _specimen(code: str, name: str) -> Resource:
    return {
        "resourceType": "Specimen",
        "id": f"s{code}",
        "type": codeable_concept(code, name, SYSTEM + "spec-type-desc"),
        "subject": {"reference": "Patient/p"},
    }


def _procedure(code: str, name: str) -> Resource:
    return {
        "resourceType": "Procedure",
        "id": f"q{code}",
        "status": "completed",
        "code": codeable_concept(code, name, SYSTEM + "procedure-icd9"),
        "subject": {"reference": "Patient/p"},
    }


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with build_store(tmp_path_factory.mktemp("parsing"), _record()) as store:
        yield store


def _paraphrases() -> Iterator[tuple[str, str]]:
    """Questions and the queries that they mean, as JSON."""
    path = Path(__file__).with_name("test_ehrsql_paraphrases.txt")
    meaning = ""
    for line in path.read_text(encoding="utf-8").splitlines():
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
    assert read(record, question) == Query(
        **json.loads(meaning), now="2131-12-31T23:59:00"
    )


@pytest.mark.parametrize("meaning", sorted({meaning for _, meaning in _paraphrases()}))
def test_the_sentence_a_query_prints_is_read_as_that_query(
    record: Store, meaning: str
) -> None:
    query = Query(**json.loads(meaning), now="2131-12-31T23:59:00")
    assert parse(query_text(query), "", record, "p") == query


@pytest.mark.parametrize(
    ("phrase", "span"),
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
def test_dates_are_read_in_many_forms(record: Store, phrase: str, span: Span) -> None:
    query = read(record, f"What was the last potassium {phrase}?")
    assert query.when == When(spans=(span,), position="last")


@pytest.mark.parametrize(
    ("phrase", "count", "unit"),
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
    record: Store, phrase: str, count: int, unit: str
) -> None:
    query = read(record, f"max heart rate {phrase}")
    ago = Ago.model_validate({"count": count, "unit": unit})
    assert query.when.spans == (Span(relation="since", ago=ago),)


def test_a_start_and_an_end_are_two_spans(record: Store) -> None:
    spans = (Span(relation="since", year=2100), Span(relation="until", year=2102))
    assert read(record, "mean sodium between 2100 and 2102").when.spans == spans
    assert read(record, "mean sodium from 2100 to 2102").when.spans == spans


@pytest.mark.parametrize(
    ("ordinal", "position"),
    [
        ("first", "first"),
        ("initial", "first"),
        ("earliest", "first"),
        ("2nd", "second"),
        ("third", "third"),
        ("latest", "last"),
        ("most recent", "last"),
        ("final", "last"),
        ("penultimate", "second_to_last"),
        ("second to last", "second_to_last"),
        ("next-to-last", "second_to_last"),
    ],
)
def test_ordinals_are_positions(record: Store, ordinal: str, position: str) -> None:
    assert read(record, f"What was the {ordinal} sodium?").when.position == position


def test_the_order_of_the_phrases_does_not_matter(record: Store) -> None:
    phrases = ["the maximum potassium", "on the first hospital visit", "since 03/2131"]
    queries = set()
    for permutation in itertools.permutations(phrases):
        question = " ".join(permutation)
        queries.add(read(record, f"What was {question}?"))
    assert len(queries) == 1


def test_misspelt_words_are_corrected_except_distant_ones(record: Store) -> None:
    misspelt = read(record, "what was the frist creatinne on the last hosptal visit")
    assert misspelt == read(
        record, "what was the first creatinine on the last hospital visit"
    )
    assert read(record, "Was prednisolone prescribed?").names == ("prednisolone",)


def test_a_name_that_the_record_does_not_have_stays_as_written(record: Store) -> None:
    query = read(record, "Has the patient been prescribed zolpidem since 2131?")
    assert query.what == "medication"
    assert query.names == ("zolpidem",)
    assert query.summary == "exists"
    query = read(record, "Did he receive aspirin, zolpidem, or insulin?")
    assert query.names == ("Aspirin", "Insulin", "zolpidem")


def test_numbers_and_ordinals_inside_a_name_are_part_of_it(record: Store) -> None:
    query = read(record, f"Did the patient receive {VENTILATION.lower()} in 2131?")
    assert query.names == (VENTILATION,)
    assert query.value is None
    assert read(record, "was clonidine patch 0.2 mg/24 hr ordered").names == (
        CLONIDINE,
    )


def test_a_name_of_a_lab_and_a_charted_item_means_the_lab(record: Store) -> None:
    assert read(record, "what was the last potassium").what == "lab"


def test_an_abbreviation_means_the_name_in_the_record(record: Store) -> None:
    query = read(record, "what was the last systolic bp")
    assert query.names == ("Arterial Blood Pressure systolic",)


def test_pt_is_a_patient_or_a_lab(record: Store) -> None:
    assert read(record, "has the pt had a lactate").names == ("Lactate",)
    assert read(record, "What was patient 10099999's last PT value?").names == ("PT",)


def test_the_context_gives_the_time_and_a_name_in_the_record(record: Store) -> None:
    context = (
        "Assume the current time is 2140-12-31 23:59:00. "
        "Search for 'Admission Weight' to find weight."
    )
    query = parse("What was the first weight?", context, record, "p")
    assert query.now == "2140-12-31T23:59:00"
    assert query.names == ("Admission Weight",)


def test_the_context_can_ask_for_a_sum(record: Store) -> None:
    context = "I want the final output to be the sum of the results."
    query = parse("What amount of insulin was given?", context, record, "p")
    assert query.returns == "dose"
    assert query.summary == "sum"
    assert query.now is None


def test_a_number_that_values_are_compared_with_is_no_date(record: Store) -> None:
    query = read(record, "When was the foley output last above 2000?")
    assert query.value == ValueTest(comparison="greater", number=2000)
    assert query.when.spans == ()
    query = read(record, "how many times was HR at least 120")
    assert query.value == ValueTest(comparison="at_least", number=120)


def test_a_visit_that_is_the_subject_is_a_position_among_the_visits(
    record: Store,
) -> None:
    assert read(record, "how long was the second ICU stay").when == When(
        position="second"
    )


def test_a_visit_around_the_subject_is_a_limit(record: Store) -> None:
    query = read(record, "how many ICU stays during the last hospital admission")
    assert query.when == When(visit=Visit(kind="hospital", which="last"))


@pytest.mark.parametrize(
    ("question", "part"),
    [
        ("What is the prognosis?", "prognosis"),
        ("Was the potassium abnormal without supplements?", "abnormal"),
        ("Should we give him aspirin?", "should"),
        (
            "Did the frobnicated gribble of quuxes improve the heart rate?",
            "frobnicated",
        ),
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
    assert part in refusal.value.full_text.lower()
    assert part not in str(refusal.value).lower()
    assert refusal.value.part


def test_a_parser_receives_only_the_question_its_context_and_the_patient() -> None:
    method_parameters = list(inspect.signature(Parser.parse).parameters)
    assert method_parameters == ["self", "question", "assumption", "patient"]
    parameters = list(inspect.signature(parse).parameters)
    assert parameters == ["question", "assumption", "record", "patient"]


def test_the_names_of_the_record_are_read_once(
    record: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(record, "last sodium?")

    def fail(*_: object) -> None:
        raise AssertionError("The names were read again.")

    monkeypatch.setattr(Store, "codes", fail)
    assert read(record, "first creatinine?").names == ("Creatinine",)
