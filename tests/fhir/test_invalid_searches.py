"""Invalid searches: the answer says what is wrong, whatever the text."""

import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archqa.fhir import FhirError, Store
from tests.fhir.invented import (
    build_store,
    ward_resources,
)


def test_an_unknown_parameter_is_refused_with_near_names_or_ignored(
    ward_store: Store, gcp: Store, hapi: Store
) -> None:
    for store in (ward_store, hapi):
        with pytest.raises(FhirError, match="Did you mean patient") as caught:
            store.search("Observation?pateint=p1")
        assert caught.value.status == 400
        assert caught.value.outcome()["issue"][0]["code"] == "invalid"
    assert gcp.search("Observation?pateint=p1").total == 6
    with pytest.raises(FhirError):
        gcp.search("Observation?pateint=p1", lenient=False)
    lenient = ward_store.search("Observation?pateint=p1", lenient=True)
    assert (lenient.total, len(lenient.notices)) == (6, 1)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("Observations?code=1", "Did you mean Observation"),
        ("Observation?date=yesterday", "not a date"),
        ("Observation?date=xx2130", "not a date"),
        ("Observation?date=2130-13-01", "not a date"),
        ("Observation?value-quantity=many", "not a number"),
        ("Observation?value-quantity=5|mg", "number|system|code"),
        ("Observation?_count=ten", "_count must be a whole number"),
        ("Observation?_count=-1", "_count must be a whole number"),
        ("Observation?_offset=99999999999999", "_offset must be a whole number"),
        ("Observation?code:exact=1", "takes no modifier"),
        ("Observation?code=a|b|c", "system|code"),
        ("Observation?status:missing=perhaps", "must be true or false"),
        ("Observation?code.name=1", "is no reference"),
        ("Observation?performer.name=1", "Say what performer refers to"),
        (
            "Observation?patient.general-practitioner.name=1",
            "Say what general-practitioner",
        ),
        ("Observation?_has:Observation=1", "_has is written"),
        ("Observation?_include=Observation", "written Type:parameter"),
        ("Observation?_include=Observation:code", "is no reference"),
        ("Observation?_sort=colour", "no search parameter"),
        ("Observation?_summary=short", "_summary is one of"),
        ("Observation?_total=all", "_total is one of"),
        ("Observation?_format=xml", "Only JSON"),
        ("Patient/p1/Location", "not in the compartment"),
        ("Patient/p1", "A search is written"),
        ("Observation?code=%ff", "not percent-encoded"),
    ],
)
def test_a_bad_search_is_answered_in_a_short_sentence(
    ward_store: Store, query: str, words: str
) -> None:
    with pytest.raises(FhirError) as caught:
        ward_store.search(query)
    assert words in str(caught.value)
    assert all(len(text) <= 600 for text in caught.value.diagnostics)


def test_every_mistake_of_a_search_is_reported_at_once(ward_store: Store) -> None:
    with pytest.raises(FhirError) as caught:
        ward_store.search("Observation?date=x&_count=y&colour=red")
    assert len(caught.value.diagnostics) == 3


@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(
    text=st.text(max_size=60),
    values=st.dictionaries(st.text(max_size=10), st.text(max_size=10), max_size=3),
)
def test_any_text_is_searched_or_refused_with_a_fhir_error(
    whole: Store, text: str, values: dict[str, str]
) -> None:
    for query, params in (
        (text, values),
        ("Observation", values),
        (f"Observation?{text}", {}),
        (f"Patient?name={text}", {}),
    ):
        with contextlib.suppress(FhirError):
            whole.search(query, params)
    with contextlib.suppress(FhirError):
        whole.get("Patient", text)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return build_store(tmp_path_factory.mktemp("whole"), ward_resources())
