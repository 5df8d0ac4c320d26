"""A record in shards: each patient's record is whole in one file, what is nobody's own in every."""

import json
from pathlib import Path

import pytest

from archqa.errors import CallerError, InputError
from archqa.fhir import ShardedStore, Store, is_sharded, split_by_patient
from tests.fhir.invented import observation, patient


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Twenty patients with five values each; a ward and an organization that are nobody's."""
    resources = [patient(f"p{number}") for number in range(20)]
    resources += [
        observation(f"o{number}-{each}", f"p{number}") for number in range(20) for each in range(5)
    ]
    resources += [
        {"resourceType": "Location", "id": "ward", "name": "Ward"},
        {"resourceType": "Organization", "id": "org", "name": "Hospital"},
        {
            "resourceType": "Encounter",
            "id": "stay",
            "status": "finished",
            "class": {"code": "IMP"},
            "subject": {"reference": "Patient/p3"},
            "location": [{"location": {"reference": "Location/ward"}}],
        },
    ]
    path = tmp_path / "all.ndjson"
    path.write_text("".join(f"{json.dumps(resource)}\n" for resource in resources))
    store = Store.open(tmp_path / "record.db", create=True)
    store.load([path])
    return store


def test_every_patients_record_is_whole_in_one_shard(store: Store, tmp_path: Path) -> None:
    made = split_by_patient(store, 4, tmp_path / "shards")
    assert sum(each.patients for each in made) == 20
    assert sum(progress.resources for progress in made) == 20 + 100 + 1 + 4 * 2
    assert is_sharded(tmp_path / "shards")
    shards = ShardedStore.open(tmp_path / "shards")
    assert shards.here == {1, 2, 3, 4}
    for number in range(20):
        name = f"p{number}"
        mine, whole = shards.of(name), list(store.everything(name))
        assert sorted(map(str, mine.everything(name))) == sorted(map(str, whole))
        assert mine.counts(name) == store.counts(name)
        search = f"Observation?patient={name}&_sort=_id"
        assert mine.search(search).resources == store.search(search).resources
        for other in range(1, 5):
            elsewhere = Store.open(tmp_path / "shards" / f"shard-{other}-of-4.db")
            assert (elsewhere.get("Patient", name) is None) == (other != shards.shard_number(name))
            assert elsewhere.get("Organization", "org") == store.get("Organization", "org")


def test_one_shard_is_the_record_itself(store: Store, tmp_path: Path) -> None:
    split_by_patient(store, 1, tmp_path / "shards")
    one = ShardedStore.open(tmp_path / "shards").of("p0")
    assert one.counts() == store.counts()
    assert one.text("Encounter", "stay") == store.text("Encounter", "stay")


def test_a_resource_about_two_patients_is_in_the_shards_of_both(tmp_path: Path) -> None:
    schedule = {
        "resourceType": "Appointment",
        "id": "both",
        "status": "booked",
        "participant": [
            {"actor": {"reference": f"Patient/p{each}"}, "status": "accepted"} for each in range(8)
        ],
    }
    path = tmp_path / "all.ndjson"
    path.write_text(
        "".join(
            f"{json.dumps(each)}\n" for each in [*(patient(f"p{n}") for n in range(8)), schedule]
        )
    )
    store = Store.open(tmp_path / "record.db", create=True)
    store.load([path])
    split_by_patient(store, 3, tmp_path / "shards")
    shards = ShardedStore.open(tmp_path / "shards")
    assert all(shards.of(f"p{number}").get("Appointment", "both") for number in range(8))


def test_shards_are_private_and_leave_nothing_else_behind(store: Store, tmp_path: Path) -> None:
    split_by_patient(store, 2, tmp_path / "shards")
    assert (tmp_path / "shards").stat().st_mode & 0o777 == 0o700
    files = {entry.name: entry.stat().st_mode & 0o777 for entry in (tmp_path / "shards").iterdir()}
    assert set(files) == {"shards.json", "shard-1-of-2.db", "shard-2-of-2.db"}
    assert set(files.values()) == {0o600}


def test_a_folder_that_is_not_empty_or_no_shards_are_refused(store: Store, tmp_path: Path) -> None:
    with pytest.raises(CallerError, match="exists already"):
        split_by_patient(store, 2, tmp_path)
    with pytest.raises(CallerError, match="out of range"):
        split_by_patient(store, 0, tmp_path / "shards")
    with pytest.raises(InputError, match="no description of shards"):
        ShardedStore.open(tmp_path)


def test_a_shard_that_is_on_another_machine_is_named(store: Store, tmp_path: Path) -> None:
    split_by_patient(store, 4, tmp_path / "shards")
    shards = ShardedStore.open(tmp_path / "shards")
    gone = shards.shard_number("p0")
    (tmp_path / "shards" / f"shard-{gone}-of-4.db").unlink()
    assert shards.here == {1, 2, 3, 4} - {gone}
    with pytest.raises(InputError, match=f"shard-{gone}-of-4.db"):
        shards.of("p0")
