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
RACES = ["2106-3", "2054-5", "2058-6"]
PROFILES = [
    "http://one.example/fhir/StructureDefinition/lab",
    "http://one.example/fhir/StructureDefinition/lab|3.1",
    "http://one.example/fhir/StructureDefinition",
    "http://one.example/fhirs",
    "urn:oid:1.2.3",
]
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
SEARCHED_DATES = [
    *DATES,
    "2130-01-01T23:30",
    "2130-01-01T23:30:00",
    "2130-01-02T04:30Z",
    "2131",
]
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
    lambda value, unit: {"value": value, **unit},
    st.sampled_from(NUMBERS),
    st.sampled_from(UNITS),
)


def references(names: list[str]) -> st.SearchStrategy[dict[str, str]]:
    return st.sampled_from(names).map(lambda name: {"reference": name})


identifiers = st.builds(
    lambda system, value, types: without_none(
        {"system": system, "value": value, "type": types and {"coding": types}}
    ),
    maybe(st.sampled_from(SYSTEMS)),
    st.sampled_from(["1", "2", "Ab"]),
    maybe(
        st.lists(
            st.builds(
                lambda system, code: {"system": system, "code": code},
                st.sampled_from(SYSTEMS),
                st.sampled_from(["MR", "SS"]),
            ),
            min_size=1,
            max_size=2,
        )
    ),
)
metas = st.builds(
    lambda profiles, tags, security, source: without_none(
        {"profile": profiles, "tag": tags, "security": security, "source": source}
    ),
    maybe(st.lists(st.sampled_from(PROFILES), max_size=2)),
    maybe(st.lists(codings, max_size=2)),
    maybe(st.lists(codings, max_size=1)),
    maybe(st.sampled_from(PROFILES)),
)
components = st.builds(
    lambda code, value: {"code": code, **value},
    concepts,
    quantities.map(lambda value: {"valueQuantity": value})
    | concepts.map(lambda value: {"valueCodeableConcept": value})
    | st.just({}),
)
plain_subjects = references(
    ["Patient/a", "Patient/b", "Patient/c", "Patient/absent", "Group/a"]
)
subjects = st.builds(
    lambda reference, identifier: without_none({**reference, "identifier": identifier}),
    plain_subjects,
    maybe(identifiers),
)
members = references([f"Observation/o{number}" for number in range(6)])


def us_core_extension(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """An extension with its text, and with codes of a broad and perhaps of a narrow category."""
    coding = st.sampled_from(RACES).map(
        lambda code: {"system": SYSTEMS[0], "code": code}
    )
    return st.builds(
        lambda broad, detailed: {
            "url": f"http://hl7.org/fhir/us/core/StructureDefinition/us-core-{name}",
            "extension": [
                {"url": "ombCategory", "valueCoding": broad},
                *({"url": "detailed", "valueCoding": one} for one in detailed),
                {"url": "text", "valueString": "2106-3"},
            ],
        },
        coding,
        st.lists(coding, max_size=1),
    )


encounter_references = references(["Encounter/e0", "Encounter/e1", "Encounter/absent"])

observations = st.builds(
    lambda code, category, subject, encounter, when, value, parts, members, meta: (
        without_none(
            {
                "status": "final",
                "code": code,
                "category": category,
                "subject": subject,
                "encounter": encounter,
                **when,
                **value,
                "component": parts,
                "hasMember": members,
                "meta": meta,
            }
        )
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
    | concepts.map(lambda value: {"valueCodeableConcept": value})
    | st.just({}),
    maybe(st.lists(components, min_size=1, max_size=3)),
    maybe(st.lists(members, min_size=1, max_size=2)),
    maybe(metas),
)
patients = st.builds(
    lambda family, given_names, gender, birth_date, identifiers, extensions: (
        without_none(
            {
                "name": [{"family": family, "given": given_names}],
                "gender": gender,
                "birthDate": birth_date,
                "identifier": identifiers,
                "extension": extensions,
            }
        )
    ),
    st.sampled_from(NAMES),
    st.lists(st.sampled_from(NAMES), max_size=2),
    maybe(st.sampled_from(["male", "female"])),
    maybe(st.sampled_from(DATES[:5])),
    maybe(st.lists(identifiers, max_size=2)),
    maybe(
        st.lists(us_core_extension("race") | us_core_extension("ethnicity"), max_size=2)
    ),
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
        resources.append(
            {"resourceType": "Observation", "id": f"o{index}", **observation}
        )
    return resources


def one_or_two(values: list[str]) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=2).map(",".join)


dates = st.tuples(st.sampled_from(PREFIXES), st.sampled_from(SEARCHED_DATES)).map(
    "".join
)
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
pairs_with_amounts = st.tuples(
    tokens.map(lambda code: code.split(",")[0]), amounts
).map("$".join)
single_tokens = tokens.map(lambda code: code.split(",")[0])
pairs_with_codes = st.lists(
    st.tuples(single_tokens, single_tokens).map("$".join), min_size=1, max_size=2
).map(",".join)
uris = st.sampled_from(
    [*PROFILES, "http://one.example/fhir/", "http://one.example/absent"]
)
urls = st.sampled_from(
    [*PROFILES[:4], "http://one.example/fhir/", f"{PROFILES[0]}/_history/1"]
)
typed_identifiers = st.sampled_from(
    [
        f"{system}|{code}|{value}"
        for system in SYSTEMS
        for code in ("MR", "SS")
        for value in "12"
    ]
)
patient_references = st.sampled_from(
    [
        "a",
        "Patient/b",
        "http://elsewhere.example/fhir/Patient/c",
        "absent",
        "Group/a",
        "a,b",
    ]
)
yes_or_no = st.sampled_from(["true", "false"])
words = st.sampled_from(["glucose", "GLUCOSE LEVEL", "magnesium", "rate", "Heart"])
names = one_or_two(
    ["sto", "Stone", "muller", "Ann", "anna m", "maria", "cruz de", "Stone Ann"]
)


def param(
    name: str, values: st.SearchStrategy[str]
) -> st.SearchStrategy[tuple[str, str]]:
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
        param("value-concept", tokens),
        param("component-code", tokens),
        param("combo-value-quantity", amounts),
        param("component-value-concept", tokens),
        param("code-value-quantity", pairs_with_amounts),
        param("combo-code-value-quantity", pairs_with_amounts),
        param("component-code-value-quantity", pairs_with_amounts),
        param("code-value-concept", pairs_with_codes),
        param("combo-code-value-concept", pairs_with_codes),
        param("component-code-value-concept", pairs_with_codes),
        param("_profile", uris),
        param("_profile:below", urls),
        param("_profile:above", urls),
        param("_source", uris),
        param("_tag", tokens),
        param("_tag:not", tokens),
        param("_security", tokens),
        param("_profile:missing", yes_or_no),
        param(
            "patient:identifier",
            one_or_two(["1", "ab", f"{SYSTEMS[0]}|2", "|1", "absent"]),
        ),
        param("encounter.patient.family", names),
        param("encounter.part-of.class", tokens),
        param("encounter.part-of.subject:Patient.race", one_or_two(RACES)),
        param("has-member:Observation.has-member:Observation.code", tokens),
        param("patient._has:Encounter:patient:class", tokens),
        param("_has:Observation:has-member:encounter.class", tokens),
        param(
            "_has:Observation:has-member:_has:Observation:has-member:code:not", tokens
        ),
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
        param("identifier:of-type", typed_identifiers),
        param("race", one_or_two(RACES)),
        param("ethnicity", one_or_two([*RACES, f"{SYSTEMS[0]}|{RACES[0]}", "absent"])),
        param("_has:Observation:patient:_has:Observation:has-member:code", tokens),
        param(
            "_has:Encounter:patient:_has:Observation:encounter:combo-value-quantity",
            amounts,
        ),
        param(
            "_has:Encounter:patient:_has:Encounter:part-of:_has:Observation:encounter:code",
            tokens,
        ),
        param(
            "_has:Observation:patient:component-code-value-quantity", pairs_with_amounts
        ),
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


@pytest.mark.parametrize("profile", ["archqa", "gcp", "hapi"])
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
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


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
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
    page = record.search(
        resource_type, [*params, ("_count", "3"), ("_total", "accurate")]
    )
    total = page.total
    ids = ids_of(page.resources)
    while page.next:
        page = record.search(page.next)
        ids += ids_of(page.resources)
    assert len(ids) == total
    assert len(set(ids)) == total
    return ids
