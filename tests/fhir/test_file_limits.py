"""The limits of files and loads: a test fails when one is lowered, raised or removed."""

from pathlib import Path

import pytest

from archqa.errors import CallerError
from archqa.fhir import (
    Overlay,
    Store,
    split_by_patient,
)
from archqa.fhir.index import schema
from archqa.fhir.index.batch import worker_count_for
from archqa.fhir.index.blobs import compress_blobs, decompress_blob
from tests.fhir.invented import (
    build_store,
    ids_of,
    observation,
    patient,
    write_ndjson,
)

MIB = 2**20


def test_a_reader_waits_30_seconds_for_a_writer(ward_store: Store) -> None:
    for write in (True, False):
        connection = schema.open_connection(ward_store.path, write=write)
        assert connection.execute("PRAGMA busy_timeout").fetchone() == (30_000,)
        connection.close()


def test_a_file_has_the_marks_by_which_old_and_new_files_are_told_apart(
    ward_store: Store,
) -> None:
    connection = ward_store.session().connection
    assert connection.execute("PRAGMA application_id").fetchone() == (0x61464852,)
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)


def test_a_resource_compressed_by_an_earlier_version_is_read() -> None:
    dictionary = b'{"resourceType": "Observation", "id": "' + b"x" * 5000
    blob = bytes.fromhex("ab266eb82edf50a91600")
    assert (
        decompress_blob(dictionary, blob)
        == '{"resourceType": "Observation", "id": "o1"}'
    )


def test_a_line_of_twenty_mib_is_read(tmp_path: Path) -> None:
    long = observation("o1", "p", note="x" * 20 * MIB)
    path = write_ndjson(tmp_path / "long.ndjson", [long])
    report = Store.open(tmp_path / "record.db", create=True).load([path])
    assert (report.added, report.bad) == (1, 0)


def test_additions_of_an_overlay_never_share_a_number_with_later_loads(
    tmp_path: Path,
) -> None:
    store = build_store(tmp_path, [patient("p1"), observation("o1", "p1")])
    with Overlay.over(store) as overlay:
        created = overlay.create(observation("x", "p1"))
        path = write_ndjson(tmp_path / "more.ndjson", [observation("o2", "p1")])
        store.load([path])
        page = overlay.search("Observation")
        assert ids_of(page.resources) == ["o1", "o2", created["id"]]


def test_two_hundred_resources_are_worth_a_dictionary_of_8_kib() -> None:
    texts = [f"{number} {'x' * 900}".encode() for number in range(200)]
    assert compress_blobs(texts[1:]).dictionary == b""
    assert len(compress_blobs(texts).dictionary) == 8192


@pytest.mark.parametrize(("cores", "workers"), [(1, 0), (2, 2), (4, 4), (16, 4)])
def test_four_mib_of_files_are_worth_up_to_four_workers(
    monkeypatch: pytest.MonkeyPatch, cores: int, workers: int
) -> None:
    monkeypatch.setattr("archqa.fhir.index.batch._core_count", lambda: cores)
    assert worker_count_for(4 * MIB - 1) == 0
    assert worker_count_for(4 * MIB) == workers


def test_two_hundred_mistakes_are_described_and_all_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "bad.ndjson"
    path.write_text("[]\n" * 300)
    report = Store.open(tmp_path / "record.db", create=True).load([path])
    assert report.bad == 300
    assert len(report.mistakes) == 200


@pytest.mark.parametrize("shards", [0, 1025])
def test_a_record_is_split_into_1024_shards_at_most(
    ward_store: Store, tmp_path: Path, shards: int
) -> None:
    with pytest.raises(CallerError, match="Between 1 and 1024"):
        split_by_patient(ward_store, shards, tmp_path / "shards")
