"""Mistakes in files: they are reported by file and line, and a strict load is all or nothing."""

import gzip
import hashlib
import json
import random
from pathlib import Path

import pytest

from archqa.errors import ArchqaError, InputError
from archqa.fhir import Store
from tests.fhir.invented import build_store, patient, write_ndjson


def test_bad_lines_are_reported_by_number_and_the_good_ones_are_loaded(
    empty_store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "bad.ndjson"
    good = json.dumps(patient("p1"))
    lines = [
        good,
        '{"resourceType": "Patient"',
        "[]",
        '{"id": "x"}',
        '{"resourceType": "Pateint", "id": "x"}',
        '{"resourceType": "Patient"}',
        '{"resourceType": "Patient", "id": "a b"}',
        "",
        json.dumps(patient("p2")),
    ]
    path.write_text("\n".join(lines))
    report = empty_store.load([path])
    assert (report.added, report.bad) == (2, 6)
    assert [
        mistake.removeprefix(str(path)).split(":")[1] for mistake in report.mistakes
    ] == [
        "2",
        "3",
        "4",
        "5",
        "6",
        "7",
    ]
    assert "Did you mean Patient" in report.mistakes[3]


def test_strict_reports_every_mistake_of_the_file_and_loads_nothing(
    tmp_path: Path,
) -> None:
    store = build_store(tmp_path, [patient("p1")])
    path = tmp_path / "bad.ndjson"
    path.write_text(f"{json.dumps(patient('p2'))}\nnot json\n\n[]\n")
    with pytest.raises(InputError) as caught:
        store.load(
            [write_ndjson(tmp_path / "good.ndjson", [patient("p3")]), path], strict=True
        )
    assert len(caught.value.mistakes) == 2
    assert store.counts() == {"Patient": 1}


def test_checksums_next_to_the_files_are_verified_before_anything_is_loaded(
    empty_store: Store, tmp_path: Path
) -> None:
    good = write_ndjson(tmp_path / "good.ndjson", [patient("p1")])
    bad = write_ndjson(tmp_path / "bad.ndjson", [patient("p2")])
    right = hashlib.sha256(good.read_bytes()).hexdigest()
    (tmp_path / "SHA256SUMS").write_text(
        f"{right}  good.ndjson\n{'0' * 64}  bad.ndjson\n"
    )
    assert empty_store.load([good]).checksums == 1
    with pytest.raises(InputError, match=r"bad\.ndjson: differs"):
        empty_store.load([good, bad])
    assert empty_store.counts() == {"Patient": 1}


def test_a_gzip_file_that_is_cut_off_is_reported_as_one_mistake(
    empty_store: Store, tmp_path: Path
) -> None:
    patients = [patient(f"p{number}") for number in range(3000)]
    path = write_ndjson(tmp_path / "cut.ndjson.gz", patients)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    report = empty_store.load([path])
    assert report.bad == 1
    assert "gzip" in report.mistakes[0]


def test_a_message_says_that_a_file_is_absent_or_no_record(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no database")
    (tmp_path / "void").mkdir()
    with pytest.raises(InputError, match="no such record"):
        Store.open(tmp_path / "absent.db")
    with pytest.raises(InputError, match="is no record"):
        Store.open(tmp_path / "notes.txt")
    store = Store.open(tmp_path / "record.db", create=True)
    with pytest.raises(InputError, match="no such file"):
        store.load([tmp_path / "absent.ndjson"])
    with pytest.raises(InputError, match="holds no FHIR"):
        store.load([tmp_path / "void"])


def test_a_record_indexed_with_other_search_parameters_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_store(tmp_path, [patient("p1")]).close()
    monkeypatch.setattr("archqa.fhir.index.schema.fingerprint", lambda: "another")
    with pytest.raises(InputError, match="another version"):
        Store.open(tmp_path / "record.db")


def spoil(text: bytes, chance: random.Random) -> bytes:
    """Damage a text in a random way."""
    position = chance.randrange(len(text))
    start, end = text[:position], text[position:]
    damaged = [
        start,
        start + bytes([chance.randrange(256)]) + end[1:],
        start + b"\xff\xfe" + end,
        text.replace(b'"id"', b'"ID"'),
        text.replace(b'"Patient"', b"17", 1),
        text.replace(b'"id": "p1"', b'"id": {"a": [1]}'),
        b"[" * 5000 + text,
        text.replace(b"1932-12-29", b"NaN").replace(b'"NaN"', b"NaN"),
        text.replace(b'"p1"', b'"\\ud800"'),
        b'{"resourceType": "Bundle", "entry": [' + start + end[:1],
        b'{"resourceType": "Bundle", "entry": {"resource": 1}}',
        b'{"resourceType": "Bundle", "entry": [1, [], {}, {"resource": [1]}, {"resource": '
        + text
        + b"}]}",
        b"9" * 5000,
        b"\x1f\x8b" + text,
    ]
    return chance.choice(damaged)


@pytest.mark.parametrize("seed", range(200))
def test_a_malformed_file_gives_clear_mistakes_and_no_crash(
    empty_store: Store, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    path = tmp_path / chance.choice(["a.ndjson", "a.json", "a.ndjson.gz"])
    content = spoil(json.dumps(patient("p1")).encode(), chance)
    path.write_bytes(gzip.compress(content) if path.name.endswith(".gz") else content)
    report = empty_store.load([path])
    assert report.added + report.bad >= 1
    for mistake in report.mistakes:
        assert mistake.startswith(str(path))
        assert "Stone" not in mistake
        assert len(mistake) < 300
    if report.bad:
        with pytest.raises(ArchqaError):
            Store.open(tmp_path / "strict.db", create=True).load([path], strict=True)
