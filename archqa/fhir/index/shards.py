"""A record in several files, each with the whole records of some patients: made by `splitting`, one asked a patient.

    shards.json            how many there are
    shard-1-of-4.db ...    stores like any other; a machine needs only those of the patients it works on

Which shard has a patient is told by the patient's id alone.
"""

import hashlib
import json
import threading
from pathlib import Path

from archqa.core.value import FrozenModel
from archqa.errors import InputError
from archqa.fhir.profile import ARCHQA, Profile
from archqa.fhir.store import Store

LAYOUT_FILE_NAME = "shards.json"


class ShardLayout(FrozenModel):
    """`shards.json`."""

    shards: int
    by: str = "sha256 of the patient's id"


def shard_of(patient: str, shards: int) -> int:
    """The shard that has a patient, counted from 1."""
    return (
        int.from_bytes(hashlib.sha256(patient.encode("utf-8", "surrogatepass")).digest()[:8])
        % shards
        + 1
    )


def shard_path(folder: Path, number: int, shards: int) -> Path:
    """The file of a shard."""
    return folder / f"shard-{number}-of-{shards}.db"


def is_sharded(place: str | Path) -> bool:
    """Whether this is a folder of shards."""
    return (Path(place) / LAYOUT_FILE_NAME).is_file()


class ShardedStore:
    """The shards in a folder, opened when a patient of theirs is asked for. Safe with several threads."""

    def __init__(self, folder: Path, layout: ShardLayout, ways: str | Profile) -> None:
        self.folder = folder
        self.count = layout.shards
        self._ways = ways
        self._open: dict[int, Store] = {}
        self._lock = threading.Lock()

    @classmethod
    def open(cls, folder: str | Path, ways: str | Profile = ARCHQA) -> "ShardedStore":
        """The shards of a folder. Raises `InputError` if it is none."""
        path = Path(folder) / LAYOUT_FILE_NAME
        try:
            layout = ShardLayout.model_validate(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            fix = "Make them with: archqa fhir split STORE --shards N --into DIR"
            raise InputError(path, [": is no description of shards."], fix) from None
        return cls(Path(folder), layout, ways)

    @property
    def here(self) -> frozenset[int]:
        """The shards whose files are on this machine."""
        numbers = range(1, self.count + 1)
        return frozenset(
            each for each in numbers if shard_path(self.folder, each, self.count).is_file()
        )

    def check_all_local(self) -> None:
        """Raise `InputError` if any shard's file is not on this machine."""
        absent = sorted(set(range(1, self.count + 1)) - self.here)
        if absent:
            names = [
                f"/{shard_path(self.folder, each, self.count).name}: is not here."
                for each in absent
            ]
            raise InputError(
                self.folder,
                names,
                "Copy it here, or run on the machines that have it: --runner ray",
            )

    def shard_number(self, patient: str) -> int:
        """The shard that has this patient."""
        return shard_of(patient, self.count)

    def of(self, patient: str) -> Store:
        """The store that has this patient. Raises `InputError` if it is not on this machine."""
        number = self.shard_number(patient)
        with self._lock:
            if number not in self._open:
                self._open[number] = Store.open(
                    shard_path(self.folder, number, self.count), self._ways
                )
            return self._open[number]

    def close(self) -> None:
        """Close every store."""
        with self._lock:
            for store in self._open.values():
                store.close()
            self._open.clear()
