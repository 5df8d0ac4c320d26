"""No part of a request is ignored in silence: it is refused, reported, or (gcp) warned of."""

import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archqa.fhir import FhirResponse, FhirService, Overlay, Store, WriteMode, Writer
from tests.fhir.invented import build_store, ward_resources
from tests.fhir.serving import BASE, ids_on_all_pages
from tests.fhir.writes import VITAL_SIGN

PROFILES = ["archqa", "hapi", "gcp"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return build_store(tmp_path_factory.mktemp("whole"), ward_resources())


def get(store: Store, profile: str, url: str, handling: str = "") -> FhirResponse:
    service = FhirService(store.as_profile(profile), BASE)
    headers = {"prefer": f"handling={handling}"} if handling else {}
    return service.handle("GET", url, headers=headers)


def outcome_texts(reply: FhirResponse) -> list[str]:
    """The diagnostics of a searchset's outcome, or those of a refusal."""
    content = reply.json()
    resources = [content, *(entry["resource"] for entry in content.get("entry", []))]
    outcomes = [
        resource
        for resource in resources
        if resource["resourceType"] == "OperationOutcome"
    ]
    return [issue["diagnostics"] for outcome in outcomes for issue in outcome["issue"]]


def links(reply: FhirResponse) -> dict[str, str]:
    return {link["relation"]: link["url"] for link in reply.json()["link"]}


IN_VAIN = [
    ("pateint=p1", "patient"),
    ("_cout=3", "_count"),
    ("colour=", "colour"),
    ("code:txt=glucose", "text"),
    ("patient:Pateint.name=x", "Patient"),
    ("_include:recurse=Observation:encounter", ":iterate"),
    ("_revinclude:logical=Observation:encounter", ":iterate"),
    ("_include=Observations:encounter", "Observation"),
    ("_include=Observation:encountr", "encounter"),
    ("_include=*:encountr", "encounter"),
    ("_include=Observation:encounter:Encountr", "Encounter"),
    ("_sort=date:desc", "-date"),
    ("_sort=colour", "colour"),
    ("_summary=cuont", "count"),
    ("_total=acurate", "accurate"),
    ("_elements=statsu", "status"),
    ("_format=jsn", "json"),
    ("_pretty=maybe", "true"),
    ("_text=x", "not supported"),
    ("_count=2&_count=3", "several times"),
    ("=p1", "no search parameter"),
    ("%20=p1", "no search parameter"),
]


@pytest.mark.parametrize(("params", "word"), IN_VAIN)
@pytest.mark.parametrize("profile", PROFILES)
def test_what_is_not_supported_is_refused_or_an_entry_of_the_outcome(
    whole: Store, profile: str, params: str, word: str
) -> None:
    url = f"Observation?patient=p1&{params}"
    strict = get(whole, profile, url, "strict")
    assert strict.status == 400
    assert word in " ".join(outcome_texts(strict))
    lenient = get(whole, profile, url, "lenient")
    assert lenient.status == 200
    (text,) = outcome_texts(lenient)
    assert "ignored" in text
    assert "warning" not in lenient.headers
    name = params.partition("=")[0]
    remaining = links(lenient)["self"].partition("?")[2].split("&")
    assert remaining.count("patient=p1") == 1
    assert [part for part in remaining if part.startswith(f"{name}=")] in (
        [],
        ["_count=3"],
    )
    if profile != "gcp":
        assert get(whole, profile, url).status == 400


@pytest.mark.parametrize(
    "params",
    [
        "pateint=p1",
        "_cout=3",
        "_include:recurse=Observation:encounter",
        "_sort=colour",
        "id=o1",
    ],
)
def test_gcp_ignores_an_unknown_parameter_as_google_does_and_names_it_in_a_header(
    whole: Store, params: str
) -> None:
    reply = get(whole, "gcp", f"Observation?status=final&{params}")
    plain = get(whole, "gcp", "Observation?status=final")
    assert reply.json()["entry"] == plain.json()["entry"]
    name = params.partition("=")[0]
    assert reply.headers["warning"] == f'299 archqa "ignored: {name}"'
    assert links(reply) == links(plain)


def test_gcp_reads_what_it_knows_in_part_as_before_and_warns(whole: Store) -> None:
    reply = get(whole, "gcp", "Observation?_elements=status,colour")
    assert reply.headers["warning"] == '299 archqa "ignored: _elements"'
    assert "subject" not in reply.json()["entry"][0]["resource"]


def test_no_value_of_the_request_comes_into_the_header(whole: Store) -> None:
    for name in ("x\r\nSet-Cookie: a", "ä", 'a"b', "x" * 300):
        reply = get(whole, "gcp", f"Observation?{quote(name)}=MRN-secret")
        assert reply.headers["warning"] == '299 archqa "ignored: of that name"'


@pytest.mark.parametrize("profile", PROFILES)
def test_malformed_values_stay_errors_under_leniency(
    whole: Store, profile: str
) -> None:
    for params in (
        "date=x",
        "_count=ten",
        "code=,",
        "_include=Observation",
        "status:missing=1",
    ):
        assert get(whole, profile, f"Observation?{params}", "lenient").status == 400


@pytest.mark.parametrize("profile", PROFILES)
def test_every_page_of_a_lenient_search_is_the_same_without_the_header(
    whole: Store, profile: str
) -> None:
    service = FhirService(whole.as_profile(profile), BASE)
    first = get(whole, profile, "Observation?colour=red&patient=p1&_count=2", "lenient")
    next_url = links(first)["next"]
    assert "colour" not in next_url
    rest = ids_on_all_pages(service, next_url)
    whole_ids = ids_on_all_pages(service, "Observation?patient=p1&_count=2")
    assert rest == whole_ids[2:]
    followed = service.get(next_url)
    assert "warning" not in followed.headers
    strict = service.handle(
        "GET", next_url.removeprefix(BASE), headers={"prefer": "handling=strict"}
    )
    assert strict.json()["entry"] == followed.json()["entry"]


def test_a_parameter_added_to_a_link_of_hapi_is_searched_by_or_refused(
    whole: Store,
) -> None:
    service = FhirService(whole.as_profile("hapi"), BASE)
    next_url = links(service.get("Observation?_count=2"))["next"]
    assert service.get(next_url).status == 200
    assert "entry" not in service.get(f"{next_url}&code=HR").json()
    assert service.get(f"{next_url}&colour=red").status == 400


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "url", ["Patient/p1?colour=red", "metadata?colour=red", "metadata?mode=terminology"]
)
def test_reads_and_the_capabilities_refuse_unknown_parameters_or_name_them_in_a_header(
    whole: Store, profile: str, url: str
) -> None:
    assert get(whole, profile, url, "strict").status == 400
    name = "mode" if "mode" in url else "colour"
    assert (
        get(whole, profile, url, "lenient")
        .headers["warning"]
        .endswith(f'ignored: {name}"')
    )
    default = get(whole, profile, url)
    is_ignored = profile == "gcp" and name == "colour"
    assert (default.status, "warning" in default.headers) == (
        (200, True) if is_ignored else (400, False)
    )


def test_the_capabilities_have_parts(whole: Store) -> None:
    assert "rest" not in get(whole, "archqa", "metadata?_elements=status").json()
    assert (
        get(whole, "archqa", "metadata?mode=full&_summary=false&_pretty=true").status
        == 200
    )
    assert get(whole, "archqa", "metadata?_summary=count").status == 400


@pytest.mark.parametrize("profile", PROFILES)
def test_everything_treats_unknown_parameters_as_searches_do(
    whole: Store, profile: str
) -> None:
    url = "Patient/p1/$everything?_typ=Observation&_count=50"
    strict = get(whole, profile, url, "strict")
    assert strict.status == 400
    assert "Did you mean _type" in outcome_texts(strict)[0]
    lenient = get(whole, profile, url, "lenient")
    assert len(outcome_texts(lenient)) == 1
    assert "_typ" not in links(lenient)["self"]
    if profile == "gcp":
        assert (
            get(whole, profile, url).headers["warning"] == '299 archqa "ignored: _typ"'
        )
    else:
        assert get(whole, profile, url).status == 400


def test_a_write_with_unknown_parameters_is_not_stored(whole: Store) -> None:
    with Overlay.over(whole) as overlay:
        service = FhirService(overlay, BASE, Writer(overlay, WriteMode.APPLY))
        assert (
            service.post("Observation?colour=red", json.dumps(VITAL_SIGN)).status == 400
        )
        assert (
            service.post("Observation?_format=json", json.dumps(VITAL_SIGN)).status
            == 201
        )
        assert service.get("Observation?_total=accurate").json()["total"] == 7


def test_a_batch_tells_what_its_reads_ignored(whole: Store) -> None:
    service = FhirService(whole.as_profile("gcp"), BASE)
    entry = {"request": {"method": "GET", "url": "Observation?colour=red"}}
    body = json.dumps({"resourceType": "Bundle", "type": "batch", "entry": [entry]})
    (answer,) = service.post("", body).json()["entry"]
    (issue,) = answer["response"]["outcome"]["issue"]
    assert "colour" in issue["diagnostics"]
    strict = service.handle("POST", "", body, {"prefer": "handling=strict"}).json()
    assert strict["entry"][0]["response"]["status"] == "400"


def test_parameters_without_a_value_are_left_out_of_the_links_and_named(
    whole: Store,
) -> None:
    for profile in PROFILES:
        reply = get(whole, profile, "Observation?code=&patient=p1")
        assert links(reply)["self"] == f"{BASE}/Observation?patient=p1"
        assert profile == "archqa" or "code" in reply.headers["warning"]
    assert outcome_texts(get(whole, "archqa", "Observation?code=")) == [
        "code has no value: it was ignored."
    ]


def test_the_library_tells_what_a_search_ignored(whole: Store) -> None:
    page = whole.as_profile("gcp").search("Observation?colour=red&_count=2")
    assert page.ignored == (("colour", "red"),)
    assert page.notices == ["The parameter colour was ignored."]
    assert "colour" not in f"{page.query}{page.next}"


@pytest.mark.parametrize("name", ["_sort", "_elements"])
@pytest.mark.parametrize("value", ["", "%1F", "%20,", "-", ",,"])
def test_a_list_without_a_name_is_named_as_ignored(
    whole: Store, name: str, value: str
) -> None:
    url = f"Observation?{name}={value}"
    assert outcome_texts(get(whole, "archqa", url)) == [
        f"{name} has no value: it was ignored."
    ]
    assert name in get(whole, "hapi", url).headers["warning"]


@pytest.mark.parametrize("name", ["_type", "_elements"])
def test_everything_refuses_a_list_without_a_name(whole: Store, name: str) -> None:
    for value in ("", ",", "%20"):
        assert (
            get(whole, "hapi", f"Patient/p1/$everything?{name}={value}").status == 400
        )


NAMES = st.sampled_from(
    [
        *(
            "pateint",
            "colour",
            "_foo",
            "_text",
            "code:txt",
            "code:exact",
            "_include:recurse",
        ),
        *(
            "_sort:desc",
            "subject:Foo",
            "patient.foo",
            "_has:Observation:patient:foo",
            "_count:x",
        ),
        *(
            "_summary",
            "_elements",
            "_total",
            "_pretty",
            "_include",
            "_revinclude",
            "_sort",
        ),
    ]
) | st.text(min_size=1, max_size=15)
VALUES = st.sampled_from(["", "x", "foo:bar", "*:foo", "Observation:foo"]) | st.text(
    max_size=15
)
BASES = [
    "Observation?patient=p1",
    "Patient?gender=female",
    "Patient/p1/$everything?_count=3",
]


@settings(max_examples=600, suppress_health_check=list(HealthCheck))
@given(
    profile=st.sampled_from(PROFILES),
    handling=st.sampled_from(["", "lenient", "strict"]),
    url=st.sampled_from(BASES),
    name=NAMES,
    value=VALUES,
)
def test_a_random_parameter_is_never_ignored_in_silence(
    whole: Store, profile: str, handling: str, url: str, name: str, value: str
) -> None:
    encoded = f"{_quoted(name)}={_quoted(value)}"
    reply = get(whole, profile, f"{url}&{encoded}", handling)
    if reply.status != 200:
        assert 400 <= reply.status < 500
        return
    plain = get(whole, profile, url, handling)
    if _content(reply) != _content(plain) or _is_without_effect(name, value):
        return
    is_warned = "warning" in reply.headers and (profile != "archqa" or handling == "")
    assert outcome_texts(reply) or (is_warned and handling != "lenient"), encoded


def _is_without_effect(name: str, value: str) -> bool:
    """Whether a parameter of R4 rightly changes nothing of this result."""
    defaults = {
        *(("_summary", "false"), ("_total", "accurate"), ("_total", "estimate")),
        *(("_pretty", "true"), ("_pretty", "false"), ("_pretty", "")),
    }
    return (name, value) in defaults


def _content(reply: FhirResponse) -> Any:
    bundle = reply.json()
    entries = [entry["resource"] for entry in bundle.get("entry", [])]
    return bundle.get("total"), [
        entry for entry in entries if entry["resourceType"] != _OUTCOME
    ]


_OUTCOME = "OperationOutcome"


def _quoted(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"))
