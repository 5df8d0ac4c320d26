"""A record in several files (shards), each with the complete records of its patients.

    shards.json            the number of shards
    shard-1-of-4.db ...    ordinary stores; a machine needs only those of the patients it works on

A patient's id alone decides which shard has the patient. `splitting` makes the shards.
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
    """The content of `shards.json`."""

    shards: int
    by: str = "sha256 of the patient's id"


def shard_of(patient: str, shards: int) -> int:
    """Return the number of the shard that has a patient, counted from 1."""
    digest = hashlib.sha256(patient.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8]) % shards + 1


def shard_path(folder: Path, number: int, shards: int) -> Path:
    """Return the path of a shard's file."""
    return folder / f"shard-{number}-of-{shards}.db"


def is_sharded(path: str | Path) -> bool:
    """Whether this is a folder of shards."""
    return (Path(path) / LAYOUT_FILE_NAME).is_file()


class ShardedStore:
    """The shards in a folder, opened on first use. Safe to use from several threads."""

    def __init__(
        self,
        folder: Path,
        layout: ShardLayout,
        profile: str | Profile,
    ) -> None:
        self.folder = folder
        self.count = layout.shards
        self._profile = profile
        self._stores: dict[int, Store] = {}
        self._lock = threading.Lock()

    @classmethod
    def open(cls, folder: str | Path, profile: str | Profile = ARCHQA) -> "ShardedStore":
        """Open a folder of shards. Raises `InputError` if it is none."""
        path = Path(folder) / LAYOUT_FILE_NAME
        try:
            layout = ShardLayout.model_validate(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            fix = "Make them with: archqa fhir split STORE --shards N --into DIR"
            raise InputError(path, [": is no description of shards."], fix) from None
        return cls(Path(folder), layout, profile)

    @property
    def here(self) -> frozenset[int]:
        """The numbers of the shards whose files are on this machine."""
        numbers = range(1, self.count + 1)
        return frozenset(number for number in numbers if self._path(number).is_file())

    def check_all_local(self) -> None:
        """Raise `InputError` if any shard's file is not on this machine."""
        absent = sorted(set(range(1, self.count + 1)) - self.here)
        if absent:
            mistakes = [f"/{self._path(number).name}: is not here." for number in absent]
            fix = "Copy it here, or run on the machines that have it: --runner ray"
            raise InputError(self.folder, mistakes, fix)

    def shard_number(self, patient: str) -> int:
        """Return the number of the shard that has this patient."""
        return shard_of(patient, self.count)

    def of(self, patient: str) -> Store:
        """Return the store that has this patient.

        Raises `InputError` if it is not on this machine.
        """
        number = self.shard_number(patient)
        with self._lock:
            if number not in self._stores:
                self._stores[number] = Store.open(self._path(number), self._profile)
            return self._stores[number]

    def close(self) -> None:
        """Close every store."""
        with self._lock:
            for store in self._stores.values():
                store.close()
            self._stores.clear()

    def _path(self, number: int) -> Path:
        return shard_path(self.folder, number, self.count)
