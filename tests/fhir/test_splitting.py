"""A record in shards: each patient's record is whole in one file, shared resources are in all."""

import stat
from pathlib import Path

import pytest

from archqa.errors import CallerError, InputError
from archqa.fhir import ShardedStore, Store, is_sharded, split_by_patient
from tests.fhir.invented import build_store, observation, patient


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Twenty patients with five values each; a ward and an organization of no patient."""
    resources = []
    for number in range(20):
        resources.append(patient(f"p{number}"))
        for index in range(5):
            resources.append(observation(f"o{number}-{index}", f"p{number}"))
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
    return build_store(tmp_path, resources)


def open_shard(folder: Path, number: int) -> Store:
    return Store.open(folder / f"shard-{number}-of-4.db")


def test_every_patients_record_is_whole_in_one_shard(
    store: Store, tmp_path: Path
) -> None:
    folder = tmp_path / "shards"
    written = split_by_patient(store, 4, folder)
    assert sum(shard.patients for shard in written) == 20
    assert sum(shard.resources for shard in written) == 20 + 100 + 1 + 4 * 2
    assert is_sharded(folder)
    shards = ShardedStore.open(folder)
    assert shards.here == {1, 2, 3, 4}
    for number in range(20):
        patient_id = f"p{number}"
        shard = shards.of(patient_id)
        in_shard = map(str, shard.everything(patient_id))
        in_store = map(str, store.everything(patient_id))
        assert sorted(in_shard) == sorted(in_store)
        assert shard.counts(patient_id) == store.counts(patient_id)
        query = f"Observation?patient={patient_id}&_sort=_id"
        assert shard.search(query).resources == store.search(query).resources


def test_a_patient_is_in_one_shard_and_an_organization_in_every(
    store: Store, tmp_path: Path
) -> None:
    folder = tmp_path / "shards"
    split_by_patient(store, 4, folder)
    shards = ShardedStore.open(folder)
    for shard_number in range(1, 5):
        shard = open_shard(folder, shard_number)
        assert shard.get("Organization", "org") == store.get("Organization", "org")
        for number in range(20):
            patient_id = f"p{number}"
            is_here = shard.get("Patient", patient_id) is not None
            assert is_here == (shards.shard_number(patient_id) == shard_number)


def test_one_shard_is_the_record_itself(store: Store, tmp_path: Path) -> None:
    split_by_patient(store, 1, tmp_path / "shards")
    shard = ShardedStore.open(tmp_path / "shards").of("p0")
    assert shard.counts() == store.counts()
    assert shard.text("Encounter", "stay") == store.text("Encounter", "stay")


def test_a_resource_about_two_patients_is_in_the_shards_of_both(tmp_path: Path) -> None:
    patient_ids = [f"p{number}" for number in range(8)]
    participants = []
    for patient_id in patient_ids:
        actor = {"reference": f"Patient/{patient_id}"}
        participants.append({"actor": actor, "status": "accepted"})
    appointment = {
        "resourceType": "Appointment",
        "id": "shared",
        "status": "booked",
        "participant": participants,
    }
    store = build_store(tmp_path, [*map(patient, patient_ids), appointment])
    split_by_patient(store, 3, tmp_path / "shards")
    shards = ShardedStore.open(tmp_path / "shards")
    for patient_id in patient_ids:
        assert shards.of(patient_id).get("Appointment", "shared") == appointment


def test_shards_are_private_and_leave_nothing_else_behind(
    store: Store, tmp_path: Path
) -> None:
    folder = tmp_path / "shards"
    split_by_patient(store, 2, folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = list(folder.iterdir())
    names = {file.name for file in files}
    assert names == {"shards.json", "shard-1-of-2.db", "shard-2-of-2.db"}
    for file in files:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_folder_that_is_not_empty_or_no_shards_are_refused(
    store: Store, tmp_path: Path
) -> None:
    with pytest.raises(CallerError, match="exists already"):
        split_by_patient(store, 2, tmp_path)
    with pytest.raises(CallerError, match="out of range"):
        split_by_patient(store, 0, tmp_path / "shards")
    with pytest.raises(InputError, match="no description of shards"):
        ShardedStore.open(tmp_path)


def test_a_shard_that_is_on_another_machine_is_named(
    store: Store, tmp_path: Path
) -> None:
    split_by_patient(store, 4, tmp_path / "shards")
    shards = ShardedStore.open(tmp_path / "shards")
    number = shards.shard_number("p0")
    name = f"shard-{number}-of-4.db"
    (tmp_path / "shards" / name).unlink()
    assert shards.here == {1, 2, 3, 4} - {number}
    with pytest.raises(InputError, match=name):
        shards.of("p0")
