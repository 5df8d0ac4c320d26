"""A record that is dumped and loaded again is equal, whatever stands in it."""

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archqa import fhir
from archqa.errors import CallerError, InputError
from archqa.fhir import FhirService, Overlay, Store
from tests.fhir.invented import (
    build_store,
    numbered_observations,
    patient,
    ward_resources,
)
from tests.fhir.serving import BASE, client_of
from tests.fhir.test_fhir_commands import run
from tests.fhir.writes import VITAL_SIGN

WORDS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x00"),
    min_size=1,
    max_size=8,
)
NUMBERS = st.sampled_from(["5", "5.10", "-0.0", "1e3", "12345678901234567890.5000"])
IDS = st.text("abcDEF019.-", min_size=1, max_size=6)
BLANKS = st.sampled_from(["", " ", "\t", "  "])
SEARCHES = (
    "Patient",
    "Patient?name:contains=a",
    "Patient?_sort=family,-_id",
    "Observation",
    "Observation?value-quantity=gt4",
    "Observation?patient=a",
    "Observation?_has:Patient:link:_id=x",
    "Observation?_sort=-date&_count=3",
    "Observation?_include=Observation:patient",
    "Patient?_revinclude=Observation:patient",
)


@st.composite
def ndjson_line(draw: st.DrawFn) -> str:
    """A resource, spelt as some other program might spell it."""
    blank = draw(BLANKS)
    escaped = draw(st.booleans())
    name = json.dumps(draw(WORDS), ensure_ascii=escaped)
    resource_id = draw(IDS)
    if draw(st.booleans()):
        members = ['"resourceType": "Patient"', f'"id":{blank}"{resource_id}"']
        members.append(f'"name" :[{{{blank}"family": {name}}}]')
    else:
        subject = f'"subject": {{"reference": "Patient/{draw(IDS)}"}}'
        day = draw(st.integers(1, 28))
        members = [
            f'"id": "{resource_id}"',
            '"resourceType":"Observation"',
            f'"valueQuantity":{{"value":{blank}{draw(NUMBERS)}, "unit": {name}}}',
            f'"effectiveDateTime": "2130-02-{day:02d}"',
            subject,
        ]
    if draw(st.booleans()):
        members = draw(st.permutations(members))
    return f"{{{blank}{f',{blank}'.join(members)}}}"


def texts_by_type(store: Store) -> dict[str, list[tuple[str, str]]]:
    """Ids and exact texts of each type, in the order of the record."""
    texts = {}
    for resource_type in store.counts():
        ids = [
            resource["id"]
            for resource in store.search_all(f"{resource_type}?_count=50")
        ]
        texts[resource_type] = [
            (name, store.text(resource_type, name) or "") for name in ids
        ]
    return texts


def answers(store: Store) -> list[Any]:
    pages = []
    for query in SEARCHES:
        try:
            page = store.search(query)
            pages.append((page.entries, page.total, page.next, page.notices))
        except fhir.FhirError as error:
            pages.append(error.diagnostics)
    return pages


@settings(max_examples=30)
@given(lines=st.lists(ndjson_line(), max_size=12), compress=st.booleans())
def test_a_record_that_is_dumped_and_loaded_is_equal(
    lines: list[str], compress: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("round")
    source = folder / "source.ndjson"
    source.write_bytes("".join(f"{line}\n" for line in lines).encode())
    with Store.open(folder / "first.db", create=True) as first:
        assert first.load([source]).bad == 0
        report = fhir.dump(first, folder / "dump", compress=compress)
        assert report.by_type == first.counts()
        assert report.reflowed == 0
        with Store.open(folder / "second.db", create=True) as second:
            if lines:
                loaded = second.load([folder / "dump"], strict=True)
                assert loaded.checksums == len(report.files)
                assert not loaded.skipped
                assert not loaded.remarks
            assert texts_by_type(second) == texts_by_type(first)
            assert answers(second) == answers(first)


def test_a_bundle_that_is_a_resource_itself_stays_one(tmp_path: Path) -> None:
    """As documents are in searches of Bundles."""
    document = {"resourceType": "Bundle", "id": "b1", "type": "document", "entry": []}
    document["entry"] = [{"resource": patient("inner")}]
    outer = {
        "resourceType": "Bundle",
        "type": "searchset",
        "entry": [{"resource": document}],
    }
    (tmp_path / "outer.json").write_text(json.dumps(outer))
    with Store.open(tmp_path / "first.db", create=True) as first:
        first.load([tmp_path / "outer.json"])
        assert first.counts() == {"Bundle": 1}
        fhir.dump(first, tmp_path / "dump")
        with Store.open(tmp_path / "second.db", create=True) as second:
            second.load([tmp_path / "dump"], strict=True)
            assert texts_by_type(second) == texts_by_type(first)


def test_line_ends_between_values_become_blanks_and_are_counted(tmp_path: Path) -> None:
    pretty = json.dumps(patient("p1"), indent=1)
    (tmp_path / "p1.json").write_text(pretty)
    with Store.open(tmp_path / "first.db", create=True) as first:
        first.load([tmp_path / "p1.json"])
        assert fhir.dump(first, tmp_path / "dump").reflowed == 1
    (line,) = (tmp_path / "dump" / "Patient.ndjson").read_text().splitlines()
    assert line == pretty.replace("\n", " ")


def test_a_dump_of_a_server_has_what_the_server_has(
    ward_store: Store, tmp_path: Path
) -> None:
    with client_of(FhirService(ward_store, BASE)) as client:
        report = fhir.dump(client, tmp_path / "of_server")
    fhir.dump(ward_store, tmp_path / "of_file")
    assert report.remarks == ()
    for name in ("SHA256SUMS", "dump.tsv", "Observation.ndjson"):
        assert (tmp_path / "of_server" / name).read_bytes() == (
            tmp_path / "of_file" / name
        ).read_bytes()


def test_a_dump_of_more_than_a_batch_keeps_the_order(tmp_path: Path) -> None:
    store = build_store(
        tmp_path / "many", [patient("p1"), *numbered_observations(1203)]
    )
    fhir.dump(store, tmp_path / "dump")
    lines = (tmp_path / "dump" / "Observation.ndjson").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == [f"o{n}" for n in range(1203)]


def test_what_was_written_on_top_of_a_record_is_dumped_too(
    ward_store: Store, tmp_path: Path
) -> None:
    with Overlay.over(ward_store) as overlay:
        stored = overlay.create(VITAL_SIGN)
        fhir.dump(overlay, tmp_path / "dump")
    lines = (tmp_path / "dump" / "Observation.ndjson").read_text().splitlines()
    assert json.loads(lines[-1])["id"] == stored["id"]
    assert len(lines) == 7


def test_a_dump_is_private(ward_store: Store, tmp_path: Path) -> None:
    fhir.dump(ward_store, tmp_path / "dump")
    assert stat.S_IMODE((tmp_path / "dump").stat().st_mode) == 0o700
    for path in (tmp_path / "dump").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_only_an_earlier_dump_is_replaced_and_only_by_force(
    ward_store: Store, empty_store: Store, tmp_path: Path
) -> None:
    target = tmp_path / "dump"
    fhir.dump(ward_store, target)
    with pytest.raises(CallerError, match="--force"):
        fhir.dump(empty_store, target)
    fhir.dump(empty_store, target, force=True)
    assert sorted(path.name for path in target.iterdir()) == ["SHA256SUMS", "dump.tsv"]
    (target / "mine.txt").write_text("x")
    with pytest.raises(CallerError, match="no dump"):
        fhir.dump(ward_store, target, force=True)
    assert (target / "mine.txt").read_text() == "x"


def test_a_dump_that_fails_leaves_nothing(ward_store: Store, tmp_path: Path) -> None:
    def stop(_: fhir.DumpProgress) -> None:
        raise KeyboardInterrupt

    folder = tmp_path / "place"
    with pytest.raises(KeyboardInterrupt):
        fhir.dump(ward_store, folder / "dump", progress=stop)
    assert list(folder.iterdir()) == []


def test_a_record_that_is_loaded_into_meanwhile_is_not_dumped_by_halves(
    ward_store: Store, tmp_path: Path
) -> None:
    more = tmp_path / "more.ndjson"
    more.write_text(json.dumps(patient("p3")) + "\n")
    loads: Iterator[None] = iter([None])

    def load_once(_: fhir.DumpProgress) -> None:
        for _none in loads:
            with Store.open(ward_store.path) as other:
                other.load([more])

    with pytest.raises(InputError, match="loaded into meanwhile"):
        fhir.dump(ward_store, tmp_path / "dump", progress=load_once)
    assert not (tmp_path / "dump").exists()
    fhir.dump(ward_store, tmp_path / "dump")
    assert len((tmp_path / "dump" / "Patient.ndjson").read_text().splitlines()) == 3


def test_the_command_dumps_and_says_how_much(tmp_path: Path) -> None:
    store = build_store(tmp_path / "ward", ward_resources())
    dump = ("dump", str(store.path), "--into", str(tmp_path / "dump"), "--quiet")
    assert "6 Observation" in run(*dump).stdout
    report = json.loads(run(*dump, "--force", "--gzip", "--json").stdout)
    assert report["by_type"] == store.counts()
    loaded = run(
        "load", str(tmp_path / "dump"), "--into", str(tmp_path / "b.db"), "--quiet"
    )
    assert "checksums are right" in loaded.stdout
