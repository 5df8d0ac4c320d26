"""Searching: what each server does, and what agents send_request for."""

from pathlib import Path

import pytest

from archqa.fhir import FhirError, Page, Store
from tests.fhir.invented import (
    NAME,
    build_store,
    codeable_concept,
    ids_of,
    observation,
    patient,
    ward_resources,
)


def ids(page: Page) -> list[str]:
    return ids_of(page.resources)


def search_ids(store: Store, query: str) -> list[str]:
    return ids(store.search(query))


def test_id_without_its_underscore_is_treated_as_each_server_does(
    ward_store: Store, gcp: Store, hapi: Store
) -> None:
    page = ward_store.search("Observation?id=o1")
    assert (ids(page), len(page.notices)) == (["o1"], 1)
    assert gcp.search("Observation?id=o1").total == 6
    with pytest.raises(FhirError):
        hapi.search("Observation?id=o1")


def test_patient_as_a_parameter_of_patients_and_wards_works_as_on_each_server(
    ward_store: Store, gcp: Store, hapi: Store
) -> None:
    assert search_ids(ward_store, "Patient?patient=p1") == ["p1"]
    assert search_ids(ward_store, "Location?patient=p1") == ["w1", "w2"]
    assert search_ids(ward_store, "Medication?patient=Patient/p1") == [
        "m1",
        "m2",
        "m3",
        "m4",
    ]
    assert search_ids(ward_store, "Medication?patient=p2") == ["m4"]
    assert gcp.search("Patient?patient=p1").total == 2
    assert gcp.search("Location?patient=p1").total == 3
    for name in ("Patient", "Location"):
        with pytest.raises(FhirError):
            hapi.search(f"{name}?patient=p1")


def test_pages_and_totals_are_those_of_each_server(tmp_path: Path) -> None:
    resources = [observation(f"o{at}", "p1") for at in range(6000)]
    store = build_store(tmp_path, resources)
    sizes = {}
    for name in ("archqa", "gcp", "hapi"):
        ways = store.as_profile(name)
        page, large = ways.search("Observation"), ways.search("Observation?_count=5999")
        sizes[name] = (len(page.entries), page.total, len(large.resources))
    assert sizes == {
        "archqa": (100, 6000, 5000),
        "gcp": (100, 6000, 1000),
        "hapi": (20, None, 5999),
    }
    hapi = store.as_profile("hapi")
    assert hapi.search("Observation?_id=o1,o2").total == 2
    assert hapi.search("Observation?_total=accurate").total == 6000
    counted = hapi.search("Observation?_summary=count")
    assert (counted.total, counted.entries, counted.next) == (6000, (), None)
    assert ids_of(store.search_all("Observation?patient=p1")) == ids_of(resources)


def test_dates_are_wall_clock_here_and_utc_on_the_other_servers(
    ward_store: Store, hapi: Store
) -> None:
    assert search_ids(ward_store, "Observation?date=2130-01-01") == ["o1"]
    assert search_ids(hapi, "Observation?date=2130-01-01") == []
    assert search_ids(hapi, "Observation?date=2130-01-02") == ["o1", "o2"]
    for store in (ward_store, hapi):
        assert search_ids(store, "Observation?date=2130-01-02T04:30:00Z") == ["o1"]
        assert search_ids(
            store, "Observation?date=ge2130-01-02T04:30:00%2B00:00&date=lt2130-01-03"
        ) == [
            "o1",
            "o2",
        ]
        assert search_ids(store, "Observation?date=2130-01-02T04:30:00+00:00") == ["o1"]


def test_a_period_without_an_end_is_open(ward_store: Store) -> None:
    assert search_ids(ward_store, "Encounter?patient=p1&date=ge2200") == ["h2"]
    assert search_ids(ward_store, "Encounter?patient=p1&date=sa2130-06") == ["h2"]


def test_a_stay_in_the_doubled_hour_of_autumn_is_found_though_it_ends_before_it_starts(
    tmp_path: Path,
) -> None:
    period = {"start": "2130-11-05T01:50:00-04:00", "end": "2130-11-05T01:10:00-05:00"}
    backwards = {
        "start": "2130-11-06T00:00:00-05:00",
        "end": "2130-11-05T00:00:00-05:00",
    }
    store = build_store(
        tmp_path,
        [
            observation("o1", "p1", effectivePeriod=period),
            observation("o2", "p1", effectivePeriod=backwards),
        ],
    )
    assert search_ids(store, "Observation?date=2130-11-05") == ["o1"]
    assert search_ids(store, "Observation?date:missing=true") == ["o2"]


def test_medication_dates_are_authored_or_timed_here_and_timed_elsewhere(
    ward_store: Store, hapi: Store
) -> None:
    assert search_ids(ward_store, "MedicationRequest?date=2130-01-05") == ["r2"]
    assert search_ids(ward_store, "MedicationRequest?date=2130-05-01") == ["r3"]
    assert search_ids(hapi, "MedicationRequest?date=2130-01-05") == []
    assert search_ids(hapi, "MedicationRequest?date=2130-05-01") == ["r3"]
    assert search_ids(hapi, "MedicationRequest?authoredon=2130-01-05") == ["r2"]


def test_names_are_matched_by_word_here_and_by_part_elsewhere(
    ward_store: Store, hapi: Store
) -> None:
    assert search_ids(ward_store, "Patient?name=Ann Stone") == ["p1"]
    assert search_ids(hapi, "Patient?name=Ann Stone") == []
    assert search_ids(hapi, "Patient?name=Ann&name=Stone&birthdate=1932-12-29") == [
        "p1"
    ]
    assert (
        search_ids(ward_store, "Patient?family=muller")
        == search_ids(ward_store, "Patient?given=JÜR")
        == ["p2"]
    )
    assert search_ids(ward_store, "Patient?family:exact=Müller") == ["p2"]
    assert search_ids(ward_store, "Patient?family:exact=Muller") == []
    assert search_ids(ward_store, "Patient?family:contains=tone") == ["p1"]


def test_a_code_in_another_case_is_found_here_with_a_notice(
    ward_store: Store, hapi: Store
) -> None:
    page = ward_store.search("Observation?code=glu")
    assert ids(page) == ["o1", "o2", "o4"]
    assert "without regard to case" in page.notices[0]
    assert search_ids(hapi, "Observation?code=glu") == []
    assert "code:text" in ward_store.search("Observation?code=2160-0").notices[0]


def test_codes_are_found_by_system_and_by_words(ward_store: Store) -> None:
    assert search_ids(ward_store, "Observation?code=http://example.org/items|HR") == [
        "o3"
    ]
    assert search_ids(ward_store, "Observation?code=http://example.org/items|") == [
        "o3"
    ]
    assert search_ids(ward_store, "Observation?code=|HR") == []
    assert search_ids(ward_store, "Observation?code:text=rate") == ["o3"]
    assert search_ids(ward_store, "Observation?category=Routine%20Vital%20Signs") == [
        "o3"
    ]
    assert search_ids(ward_store, "Observation?code:not=GLU,HR") == ["o5", "o6"]
    assert search_ids(
        ward_store, "Encounter?identifier=http://example.org/identifier/encounter-icu|"
    ) == ["i1"]


def test_a_comma_within_a_value_is_escaped(tmp_path: Path) -> None:
    store = build_store(
        tmp_path,
        [
            observation("o1", "p", codeable_concept("A,B")),
            observation("o2", "p", codeable_concept("A")),
        ],
    )
    assert search_ids(store, r"Observation?code=A\,B") == ["o1"]
    assert search_ids(store, "Observation?code=A,B") == ["o2"]


def test_special_patient_parameters(ward_store: Store) -> None:
    assert search_ids(ward_store, "Patient?deceased=true") == ["p2"]
    assert search_ids(ward_store, "Patient?deceased=false") == ["p1"]
    assert search_ids(ward_store, "Patient?death-date=2131-02") == ["p2"]
    assert search_ids(ward_store, "Patient?legal-sex=female") == ["p1"]
    assert search_ids(ward_store, "Patient?identifier=MRN-p2") == search_ids(
        ward_store, "Patient?identifier=http://example.org/mrn|MRN-p2"
    )


@pytest.mark.parametrize(
    "form",
    [
        "p1",
        "Patient/p1",
        "http://x.example/fhir/Patient/p1",
        "urn:uuid:p1",
        "Patient/p1/_history/2",
    ],
)
def test_a_patient_may_be_named_in_any_form(ward_store: Store, form: str) -> None:
    assert ward_store.search("Observation", {"patient": form}).total == 5
    assert search_ids(ward_store, f"Encounter?subject={form}") == ["h1", "i1", "h2"]


def test_references_are_followed_one_step(ward_store: Store) -> None:
    assert search_ids(ward_store, "Observation?patient.identifier=MRN-p2") == ["o4"]
    assert search_ids(ward_store, "Observation?subject:Patient.name=stone&code=HR") == [
        "o3"
    ]
    assert search_ids(
        ward_store, f"MedicationRequest?medication.identifier={NAME}|Heparin"
    ) == [
        "r2",
        "r3",
    ]
    assert search_ids(ward_store, "Patient?_has:Observation:patient:code=HR") == ["p1"]
    assert search_ids(
        ward_store, "Medication?_has:MedicationRequest:medication:patient=p2"
    ) == ["m4"]


def test_included_resources_come_with_the_matches(ward_store: Store) -> None:
    page = ward_store.search(
        "MedicationRequest?patient=p1&_include=MedicationRequest:medication"
    )
    assert (ids_of(page.included), page.total) == (["m3", "m4"], 2)
    deeper = (
        "MedicationRequest?_id=r1&_include=MedicationRequest:medication"
        "&_include:iterate=Medication:ingredient"
    )
    assert ids_of(ward_store.search(deeper).included) == ["m1", "m2", "m3"]
    back = ward_store.search(
        "Encounter?_id=h1&_revinclude=Condition:encounter&_revinclude=Observation:encounter"
    )
    assert ids_of(back.included) == ["o1", "o2", "c1"]
    assert {
        resource["id"]
        for resource in ward_store.search("Observation?_id=o5&_include=*").included
    } == {
        "p1",
        "o6",
        "s1",
    }
    assert ids_of(
        ward_store.search("Observation?_id=o5&_include=*:subject").included
    ) == ["p1"]


def test_results_are_sorted_by_several_keys_and_those_without_come_last(
    tmp_path: Path,
) -> None:
    store = build_store(
        tmp_path,
        [
            observation("a", "p1", when="2130-01-02"),
            observation("b", "p1"),
            observation("c", "p1", when="2130-01-03"),
            observation("d", "p1", when="2130-01-02"),
        ],
    )
    assert search_ids(store, "Observation?_sort=-date,-_id") == ["c", "d", "a", "b"]
    assert search_ids(store, "Observation?_sort=date") == ["a", "d", "c", "b"]


def test_parts_of_resources_keep_their_numbers(tmp_path: Path) -> None:
    text = (
        '{"resourceType":"Observation","id":"o1","text":{"div":"x"},"code":{"text":"K"},'
        '"valueQuantity":{"value":5.10}}'
    )
    (tmp_path / "one.ndjson").write_text(text)
    store = Store.open(tmp_path / "record.db", create=True)
    store.load([tmp_path / "one.ndjson"])
    part = store.search("Observation?_elements=value").entries[0]
    assert '"value":5.10' in part.text
    assert set(part.resource) == {"resourceType", "id", "code", "valueQuantity", "meta"}
    assert part.resource["meta"]["tag"][0]["code"] == "SUBSETTED"
    assert "text" not in store.search("Observation?_summary=data").entries[0].resource
    assert (
        "valueQuantity"
        not in store.search("Observation?_summary=text").entries[0].resource
    )
    assert "code" in store.search("Observation?_summary=true").entries[0].resource


def test_the_compartment_and_everything_of_a_patient(ward_store: Store) -> None:
    assert search_ids(ward_store, "Patient/p2/Observation?code=GLU") == ["o4"]
    assert ids_of(ward_store.everything("p2")) == [
        "p2",
        "h3",
        "o4",
        "r3",
        "m4",
    ]
    every = {resource["id"] for resource in ward_store.everything("p1")}
    assert every == {resource["id"] for resource in ward_resources()} - {
        "p2",
        "h3",
        "o4",
        "r3",
        "w3",
    }
    with pytest.raises(FhirError):
        list(ward_store.everything("absent"))


def test_the_searches_that_medagentbench_agents_make(tmp_path: Path) -> None:
    one = patient("S6426560", "Stafford", ["Peter"], birthDate="1932-12-29")
    value = observation(
        "1",
        "S6426560",
        codeable_concept("MG", system="http://loinc.org", text="MG"),
        "2023-11-12T10:15:00+00:00",
    )
    store = build_store(tmp_path, [one, value], "hapi")
    for query in (
        "Patient?name=Peter&name=Stafford&birthdate=1932-12-29&_format=json",
        "Patient?given=Peter&family=Stafford",
        "Patient?identifier=MRN-S6426560",
        "Observation?patient=S6426560&code=MG&date=ge2023-11-12T10:15:00+00:00",
        "Observation?patient=S6426560&category=laboratory&_sort=-date&_count=200",
        "Observation?patient=S6426560&code=MG&_count=5000&_format=json",
        "//Observation?patient=S6426560",
        "Observation&_format=json",
    ):
        assert store.search(query).total == 1, query
    for query in (
        "Condition?patient=S6426560&category=problem-list-item",
        "Procedure?patient=S6426560&date=ge2023",
    ):
        assert store.search(query).total == 0


def test_a_thousand_ids_in_one_search(tmp_path: Path) -> None:
    store = build_store(tmp_path, [observation(f"o{at}", "p") for at in range(1200)])
    query = f"Observation?_id={','.join(f'o{at}' for at in range(1000))}&_count=1000"
    assert len(store.search(query).entries) == 1000
