"""Random searches over random records: a brute-force search finds the same.

The brute-force search shares no code with archqa.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archqa.fhir import Overlay, Store
from tests.fhir.brute_force import BruteForce
from tests.fhir.brute_force_values import interval
from tests.fhir.invented import build_store, ids_of

Search = tuple[str, list[tuple[str, str]]]

PATIENTS = ["a", "b", "c"]
CODES = ["GLU", "glu", "MG", "2160-0", "Hb A1c"]
SYSTEMS = ["http://one.example", "http://two.example"]
WORDS = ["Glucose", "glucose  level", "Magnésium", "Heart Rate", "Rate"]
DATES = [
    "2130",
    "2130-01",
    "2130-01-01",
    "2130-01-31",
    "2130-02-28",
    "2130-01-01T00:00:00Z",
    "2130-01-01T23:30:00-05:00",
    "2130-01-02T04:30:00+00:00",
    "2130-01-02T04:29:59Z",
    "2130-01-31T20:00:00-04:00",
    "2130-02-01T00:00:00+05:30",
    "2130-12-31T23:59:59-05:00",
]
SEARCHED_DATES = [*DATES, "2130-01-01T23:30", "2130-01-01T23:30:00", "2130-01-02T04:30Z", "2131"]
PREFIXES = ["", "eq", "ne", "gt", "ge", "lt", "le", "sa", "eb"]
NUMBERS = [5, 5.4, 5.35, 5.45, 100, 99.5, -3.2, 0, 7.1]
UNITS = [
    {"unit": "mg/dL"},
    {"unit": "mg/dL", "code": "mg/dL", "system": "http://unitsofmeasure.org"},
    {"unit": "g"},
    {},
]
NAMES = ["Stone", "Stoner", "Müller", "MULLER", "de la Cruz", "Ann", "Anna Maria"]


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def without_none(resource: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in resource.items() if value is not None}


def is_in_order(period: dict[str, str]) -> bool:
    """Whether a period ends after it starts, on both clocks.

    Periods that do not have tests of their own.
    """
    if len(period) < 2:
        return bool(period)
    for utc in (False, True):
        start, _ = interval(period["start"], utc=utc)
        _, end = interval(period["end"], utc=utc)
        if start >= end:
            return False
    return True


periods = st.builds(
    lambda start, end: without_none({"start": start, "end": end}),
    maybe(st.sampled_from(DATES)),
    maybe(st.sampled_from(DATES)),
).filter(is_in_order)
codings = st.builds(
    lambda system, code, display: without_none(
        {"system": system, "code": code, "display": display}
    ),
    maybe(st.sampled_from(SYSTEMS)),
    st.sampled_from(CODES),
    maybe(st.sampled_from(WORDS)),
)
concepts = st.builds(
    lambda codings, text: without_none({"coding": codings, "text": text}),
    st.lists(codings, min_size=1, max_size=2),
    maybe(st.sampled_from(WORDS)),
)
quantities = st.builds(
    lambda value, unit: {"value": value, **unit}, st.sampled_from(NUMBERS), st.sampled_from(UNITS)
)


def references(names: list[str]) -> st.SearchStrategy[dict[str, str]]:
    return st.sampled_from(names).map(lambda name: {"reference": name})


subjects = references(["Patient/a", "Patient/b", "Patient/c", "Patient/absent", "Group/a"])
encounter_references = references(["Encounter/e0", "Encounter/e1", "Encounter/absent"])

observations = st.builds(
    lambda code, category, subject, encounter, when, value: without_none(
        {
            "status": "final",
            "code": code,
            "category": category,
            "subject": subject,
            "encounter": encounter,
            **when,
            **value,
        }
    ),
    concepts,
    maybe(st.lists(concepts, min_size=1, max_size=2)),
    subjects,
    maybe(encounter_references),
    st.sampled_from(DATES).map(lambda text: {"effectiveDateTime": text})
    | periods.map(lambda period: {"effectivePeriod": period})
    | st.just({}),
    quantities.map(lambda value: {"valueQuantity": value})
    | st.sampled_from(WORDS).map(lambda text: {"valueString": text})
    | st.just({}),
)
patients = st.builds(
    lambda family, given_names, gender, birth_date: without_none(
        {
            "name": [{"family": family, "given": given_names}],
            "gender": gender,
            "birthDate": birth_date,
        }
    ),
    st.sampled_from(NAMES),
    st.lists(st.sampled_from(NAMES), max_size=2),
    maybe(st.sampled_from(["male", "female"])),
    maybe(st.sampled_from(DATES[:5])),
)
visits = st.builds(
    lambda subject, period, part_of, encounter_class: without_none(
        {
            "subject": subject,
            "period": period,
            "partOf": part_of,
            "class": encounter_class,
        }
    ),
    subjects,
    maybe(periods),
    maybe(encounter_references),
    st.sampled_from(CODES).map(lambda code: {"code": code}),
)


@st.composite
def records(draw: st.DrawFn) -> list[dict[str, Any]]:
    resources = []
    for name in PATIENTS:
        resources.append({"resourceType": "Patient", "id": name, **draw(patients)})
    drawn_visits = draw(st.lists(visits, max_size=4))
    for index, visit in enumerate(drawn_visits):
        resources.append({"resourceType": "Encounter", "id": f"e{index}", **visit})
    drawn_observations = draw(st.lists(observations, min_size=4, max_size=14))
    for index, observation in enumerate(drawn_observations):
        resources.append({"resourceType": "Observation", "id": f"o{index}", **observation})
    return resources


def one_or_two(values: list[str]) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=2).map(",".join)


dates = st.tuples(st.sampled_from(PREFIXES), st.sampled_from(SEARCHED_DATES)).map("".join)
tokens = one_or_two(
    [
        *CODES,
        *(f"{SYSTEMS[0]}|{code}" for code in CODES),
        "|GLU",
        f"{SYSTEMS[1]}|",
        "absent",
        "hb  a1C",
    ]
)
amounts = st.tuples(
    st.sampled_from(PREFIXES),
    st.sampled_from(["5", "5.4", "5.40", "100", "1e2", "-3.2", "0"]),
    st.sampled_from(["", "||mg/dL", "|http://unitsofmeasure.org|mg/dL", "||g"]),
).map("".join)
patient_references = st.sampled_from(
    ["a", "Patient/b", "http://elsewhere.example/fhir/Patient/c", "absent", "Group/a", "a,b"]
)
yes_or_no = st.sampled_from(["true", "false"])
words = st.sampled_from(["glucose", "GLUCOSE LEVEL", "magnesium", "rate", "Heart"])
names = one_or_two(["sto", "Stone", "muller", "Ann", "anna m", "maria", "cruz de", "Stone Ann"])


def param(name: str, values: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, str]]:
    return values.map(lambda value: (name, value))


FILTERS = {
    "Observation": st.one_of(
        param("code", tokens),
        param("code:not", tokens),
        param("code:text", words),
        param("category", tokens),
        param("category:missing", yes_or_no),
        param("date", dates),
        param("date:missing", yes_or_no),
        param("patient", patient_references),
        param("encounter", st.sampled_from(["e0", "Encounter/e1", "absent"])),
        param("encounter:missing", yes_or_no),
        param("value-quantity", amounts),
        param("value-string", words),
        param("value-string:exact", st.sampled_from(WORDS)),
        param("value-string:contains", words),
        param("patient.family", names),
        param("patient.gender", st.sampled_from(["male", "female", "absent"])),
        param("encounter.date", dates),
        param("_id", one_or_two(["o0", "o1", "o2", "absent"])),
        param("_id:not", one_or_two(["o0", "o1"])),
    ),
    "Patient": st.one_of(
        param("family", names),
        param("given", names),
        param("family:exact", st.sampled_from(NAMES)),
        param("gender", one_or_two(["male", "female", "Male"])),
        param("gender:not", st.just("male")),
        param("birthdate", dates),
        param("_has:Observation:patient:code", tokens),
        param("_has:Observation:patient:date", dates),
        param("_has:Encounter:patient:class", tokens),
    ),
    "Encounter": st.one_of(
        param("date", dates),
        param("patient", patient_references),
        param("class", tokens),
        param("part-of", st.sampled_from(["e0", "Encounter/e1"])),
        param("part-of.class", tokens),
        param("part-of:missing", yes_or_no),
    ),
}
SORTS = {
    "Observation": ["date", "-date", "_id", "-_id"],
    "Patient": ["_id", "birthdate"],
    "Encounter": ["date", "-date"],
}


@st.composite
def searches(draw: st.DrawFn) -> Search:
    # Most of the searches are for Observations.
    types = ["Observation", "Observation", "Observation", "Patient", "Encounter"]
    resource_type = draw(st.sampled_from(types))
    params = draw(st.lists(FILTERS[resource_type], min_size=1, max_size=3))
    sort = draw(maybe(st.sampled_from(SORTS[resource_type])))
    if sort:
        params.append(("_sort", sort))
    return resource_type, params


@pytest.mark.parametrize("profile", ["archqa", "hapi"])
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(resources=records(), queries=st.lists(searches(), min_size=12, max_size=12))
def test_random_searches_find_what_a_brute_force_search_finds(
    profile: str,
    resources: list[dict[str, Any]],
    queries: list[Search],
) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        build_store(Path(folder), resources, profile) as store,
    ):
        brute_force = BruteForce(resources, profile)
        for resource_type, params in queries:
            expected = brute_force.search(resource_type, params)
            assert ids_on_all_pages(store, resource_type, params) == expected


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    resources=records(),
    queries=st.lists(searches(), min_size=8, max_size=8),
    stored_count=st.integers(0, 20),
)
def test_a_record_half_in_an_overlay_is_searched_as_if_it_were_whole(
    resources: list[dict[str, Any]],
    queries: list[Search],
    stored_count: int,
) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        build_store(Path(folder), resources[:stored_count]) as store,
        Overlay.over(store) as overlay,
    ):
        for resource in resources[stored_count:]:
            overlay.put(json.dumps(resource), resource)
        brute_force = BruteForce(resources, "archqa")
        for resource_type, params in queries:
            expected = brute_force.search(resource_type, params)
            assert ids_on_all_pages(overlay, resource_type, params) == expected


def ids_on_all_pages(
    record: Store | Overlay,
    resource_type: str,
    params: list[tuple[str, str]],
) -> list[str]:
    """The ids on all pages of three, whose number must agree with the total."""
    page = record.search(resource_type, [*params, ("_count", "3"), ("_total", "accurate")])
    total = page.total
    ids = ids_of(page.resources)
    while page.next:
        page = record.search(page.next)
        ids += ids_of(page.resources)
    assert len(ids) == total
    assert len(set(ids)) == total
    return ids
