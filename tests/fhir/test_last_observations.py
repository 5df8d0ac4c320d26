"""`Observation/$lastn`: the latest of each code, as a brute-force search finds them."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archqa.fhir import FhirService, Overlay, Store
from tests.fhir.brute_force import BruteForce
from tests.fhir.brute_force_operations import last_observations
from tests.fhir.invented import build_store, codeable_concept, observation, patient
from tests.fhir.serving import BASE, ids_on_all_pages
from tests.fhir.test_searches_equal_a_brute_force import maybe, observations, records

FORM = {"content-type": "application/x-www-form-urlencoded"}
PROFILES = ["archqa", "gcp", "hapi"]

text_codes = st.sampled_from(["Glucose", "glucose", "g l u"]).map(lambda text: {"text": text})
more_observations = st.lists(
    st.builds(lambda resource, code: {**resource, "code": code}, observations, text_codes),
    max_size=4,
)
requests = st.lists(
    st.sampled_from(
        [
            ("code", "GLU,MG,2160-0"),
            ("category", "GLU,glu,MG,2160-0"),
            ("date", "ge2130-01"),
            ("code:not", "MG"),
            ("status", "final"),
        ]
    ),
    max_size=2,
    unique=True,
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    profile=st.sampled_from(["archqa", "hapi"]),
    resources=records(),
    by_text=more_observations,
    params=requests,
    subject=st.sampled_from(["a", "b"]),
    per_group=maybe(st.integers(1, 4)),
    stored_count=st.integers(0, 20),
)
def test_the_latest_of_each_code_are_those_that_a_brute_force_search_finds(
    profile: str,
    resources: list[dict[str, Any]],
    by_text: list[dict[str, Any]],
    params: list[tuple[str, str]],
    subject: str,
    per_group: int | None,
    stored_count: int,
) -> None:
    for index, resource in enumerate(by_text):
        resources.append({"resourceType": "Observation", "id": f"t{index}", **resource})
    search = [("patient", subject), ("category:not", "x"), *params]
    brute_force = BruteForce(resources, profile)
    matches = [resource for resource in resources if resource["resourceType"] == "Observation"]
    for name, value in search:
        matches = [match for match in matches if brute_force.matches(match, name, value)]
    with (
        tempfile.TemporaryDirectory() as folder,
        build_store(Path(folder), resources[:stored_count], profile) as store,
        Overlay.over(store) as overlay,
    ):
        for resource in resources[stored_count:]:
            overlay.put(json.dumps(resource), resource)
        query = "&".join(f"{name}={value}" for name, value in search)
        own = "" if per_group is None else f"&max={per_group}"
        service = FhirService(overlay, BASE)
        ids = ids_on_all_pages(service, f"Observation/$lastn?{query}{own}&_count=2")
    expected = last_observations(matches, per_group or 1)
    for same_time in expected:
        assert set(ids[: len(same_time)]) == same_time
        del ids[: len(same_time)]
    assert ids == []


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Three glucose results, one of them under a local code, and a heart rate of each of two."""
    both = codeable_concept("GLU")
    both["coding"].append({"system": "http://loinc.org", "code": "2339-0"})
    loinc = codeable_concept("2339-0", system="http://loinc.org")
    heart_rate = codeable_concept("HR")
    return build_store(
        tmp_path_factory.mktemp("results"),
        [
            patient("p1"),
            patient("p2"),
            observation("g1", "p1", codeable_concept("GLU"), "2130-01-01T08:00:00Z"),
            observation("g2", "p1", both, "2130-01-02T08:00:00Z"),
            observation("g3", "p1", loinc, "2130-01-03T08:00:00Z", status="entered-in-error"),
            observation("h1", "p1", heart_rate, "2130-01-02T09:00:00Z"),
            observation("h2", "p2", heart_rate, "2130-01-04T09:00:00Z"),
        ],
    )


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("patient=p1&category=laboratory", ["g3", "h1"]),
        ("patient=p1&category=laboratory&max=2", ["g3", "h1", "g2"]),
        ("subject=Patient/p1&code=GLU,HR&status=final", ["h1", "g2"]),
        ("patient=p1,p2&code=HR", ["h2", "h1"]),
        ("patient=p1&code=absent", []),
    ],
)
def test_the_latest_of_each_code_come_by_get_form_and_parameters(
    results: Store, profile: str, query: str, expected: list[str]
) -> None:
    service = FhirService(results.as_profile(profile), BASE)
    parameters = []
    for part in query.split("&"):
        name, value = part.split("=")
        parameters.append({"name": name, "valueString": value})
    resource = json.dumps({"resourceType": "Parameters", "parameter": parameters})
    replies = [
        service.get(f"Observation/$lastn?{query}"),
        service.handle("POST", "Observation/$lastn", query, FORM),
        service.post("Observation/$lastn", resource),
    ]
    for reply in replies:
        bundle = reply.json()
        entries = [entry for entry in bundle.get("entry", ()) if entry["search"]["mode"] == "match"]
        assert [entry["resource"]["id"] for entry in entries] == expected
        assert bundle["total"] == len(expected)


def test_a_count_of_the_latest_has_no_entries(results: Store) -> None:
    url = "Observation/$lastn?patient=p1&category=laboratory&_summary=count"
    bundle = FhirService(results, BASE).get(url).json()
    assert bundle["total"] == 2
    assert "entry" not in bundle
    assert [link["relation"] for link in bundle["link"]] == ["self"]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("category=laboratory", "needs a patient or subject"),
        ("patient=p1", "needs a category or a code"),
        ("patient:missing=true&code=GLU", "needs a patient or subject"),
        ("patient=p1&code=GLU&max=0", "max is one whole number"),
        ("patient=p1&code=GLU&max=2&max=3", "max is one whole number"),
        ("patient=p1&code=GLU&_sort=date", "takes no _sort"),
        ("patient=p1&code=GLU&date=x", "date"),
    ],
)
def test_an_invalid_request_for_the_latest_is_refused(
    results: Store, profile: str, query: str, message: str
) -> None:
    reply = FhirService(results.as_profile(profile), BASE).get(f"Observation/$lastn?{query}")
    assert reply.status == 400
    assert message in reply.body


def test_all_mistakes_of_a_request_for_the_latest_are_named_at_once(results: Store) -> None:
    reply = FhirService(results, BASE).get("Observation/$lastn?max=x&colour=red")
    assert len(reply.json()["issue"]) == 4


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("{", "is not JSON"),
        ("{}", "must be a Parameters resource"),
        ('{"resourceType": "Parameters", "parameter": [{"name": "max"}]}', "needs one value"),
        (
            '{"resourceType": "Parameters", "parameter": [{"name": "x", "valueRange": {}}, {}]}',
            "type that is not supported",
        ),
    ],
)
def test_an_invalid_body_of_an_operation_is_refused(
    results: Store, body: str, message: str
) -> None:
    reply = FhirService(results, BASE).post("Observation/$lastn", body)
    assert reply.status == 400
    assert message in reply.body


def test_parameters_may_have_the_types_of_their_values(results: Store) -> None:
    parameters = [
        {"name": "subject", "valueReference": {"reference": "Patient/p1"}},
        {"name": "code", "valueCodeableConcept": codeable_concept("GLU")},
        {"name": "max", "valuePositiveInt": 5},
    ]
    body = json.dumps({"resourceType": "Parameters", "parameter": parameters})
    bundle = FhirService(results, BASE).post("Observation/$lastn", body).json()
    assert [entry["resource"]["id"] for entry in bundle["entry"]] == ["g2", "g1"]
