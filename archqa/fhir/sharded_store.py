"""A record in several files (shards), each with the complete records of its patients.

    shards.json            the number of shards
    shard-1-of-4.db ...    ordinary stores; a machine needs only those of the patients it works on

A patient's id alone decides which shard has the patient. A resource of several patients is in the
shard of each; a resource of no patient (ward, drug, organization) is in every shard.
"""

import hashlib
import json
import shutil
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from archqa.core.value import FrozenModel
from archqa.errors import CallerError, InputError
from archqa.fhir.index.blobs import ResourceReader
from archqa.fhir.index.sql import first_column, sql_number_list
from archqa.fhir.profile import ARCHQA, Profile
from archqa.fhir.search.compartments import owner_elements
from archqa.fhir.store import Store
from archqa.fhir.values.text import on_one_line
from archqa.safety.files import private_draft, storage_errors, write_private_text

MAX_SHARDS = 1024
"""Each shard has a file open while it is written."""

_LAYOUT_FILE_NAME = "shards.json"

_BATCH_SIZE = 1000
"""Resources that are decompressed at once."""

_OWNERS_SQL = """
SELECT x.n, t.id FROM reference x JOIN target t ON t.t = x.t
WHERE x.n BETWEEN ? AND ? AND x.p IN ({}) AND t.type IN ('Patient', '')
UNION
SELECT n, id FROM resource
WHERE n BETWEEN ? AND ? AND type = (SELECT k FROM type WHERE name = 'Patient')
"""


class _ShardLayout(FrozenModel):
    """The content of `shards.json`."""

    shards: int
    by: str = "sha256 of the patient's id"


def _shard_of(patient: str, shards: int) -> int:
    """Return the number of the shard that has a patient, counted from 1."""
    digest = hashlib.sha256(patient.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8]) % shards + 1


def _shard_path(folder: Path, number: int, shards: int) -> Path:
    """Return the path of a shard's file."""
    return folder / f"shard-{number}-of-{shards}.db"


def is_sharded(path: str | Path) -> bool:
    """Whether this is a folder of shards."""
    return (Path(path) / _LAYOUT_FILE_NAME).is_file()


class ShardedStore:
    """The shards in a folder, opened on first use. Safe to use from several threads."""

    def __init__(
        self,
        folder: Path,
        layout: _ShardLayout,
        profile: str | Profile,
    ) -> None:
        self.folder = folder
        self.count = layout.shards
        self._profile = profile
        self._stores: dict[int, Store] = {}
        self._lock = threading.Lock()

    @classmethod
    def open(
        cls, folder: str | Path, profile: str | Profile = ARCHQA
    ) -> "ShardedStore":
        """Open a folder of shards. Raises `InputError` if it is none."""
        path = Path(folder) / _LAYOUT_FILE_NAME
        try:
            layout = _ShardLayout.model_validate(
                json.loads(path.read_text(encoding="utf-8"))
            )
        except (OSError, ValueError):
            raise InputError(
                path,
                [": is no description of shards."],
                "Make them with: archqa fhir split STORE --shards N --into DIR",
            ) from None
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
            mistakes = [
                f"/{self._path(number).name}: is not here." for number in absent
            ]
            raise InputError(
                self.folder,
                mistakes,
                "Copy it here, or run on the machines that have it: --runner ray",
            )

    def shard_number(self, patient: str) -> int:
        """Return the number of the shard that has this patient."""
        return _shard_of(patient, self.count)

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
        return _shard_path(self.folder, number, self.count)


class Shard(NamedTuple):
    """One shard as it was written: its file, and the numbers of patients and resources in it."""

    path: Path
    patients: int
    resources: int


def split_by_patient(store: Store, shards: int, into: Path) -> list[Shard]:
    """Write the shards of a store into a new folder, so that each machine reads its own files.

    A split that fails removes its folder again. Raises `CallerError` for a folder that is not
    empty, or a number of shards out of range, and `StorageError`.
    """
    with storage_errors(into):
        if not 1 <= shards <= MAX_SHARDS:
            limits = f"Between 1 and {MAX_SHARDS} can be made."
            raise CallerError(f"--shards {shards} is out of range.\n{limits}")
        is_empty_folder = into.is_dir() and not any(into.iterdir())
        if into.exists() and not is_empty_folder:
            raise CallerError(f"{into} exists already.\nName a new folder with --into.")
        into.mkdir(mode=0o700, parents=True, exist_ok=True)
    paths = [_shard_path(into, number, shards) for number in range(1, shards + 1)]
    drafts = [into / f".{path.name}.ndjson" for path in paths]
    try:
        with storage_errors(into):
            _write_drafts(store, drafts)
            written = list(map(_load, drafts, paths))
            for draft in drafts:
                draft.unlink(missing_ok=True)
            # The layout comes last: a folder without it is incomplete.
            text = json.dumps(_ShardLayout(shards=shards).model_dump(), indent=2)
            write_private_text(into / _LAYOUT_FILE_NAME, f"{text}\n")
    except BaseException:
        shutil.rmtree(into, ignore_errors=True)
        raise
    return written


def _write_drafts(store: Store, drafts: list[Path]) -> None:
    """Write each resource to the drafts of its patients, or to all drafts."""
    every_shard = range(1, len(drafts) + 1)
    sql = "SELECT n FROM resource WHERE n > ? ORDER BY n LIMIT ?"
    with store.read_session() as session, ExitStack() as stack:
        files = [stack.enter_context(private_draft(draft)) for draft in drafts]
        connection = session.connection
        reader = ResourceReader(connection)
        last = -1
        while numbers := first_column(connection, sql, (last, _BATCH_SIZE)):
            last = numbers[-1]
            shards_of: dict[int, set[int]] = {}
            first = numbers[0]
            owners_sql = _OWNERS_SQL.format(sql_number_list(owner_elements(connection)))
            owners = connection.execute(
                owners_sql, (first, last, first, last)
            ).fetchall()
            for n, patient in owners:
                shards_of.setdefault(n, set()).add(_shard_of(patient, len(drafts)))
            for n, resource in zip(numbers, reader.fetch(numbers), strict=True):
                line = f"{on_one_line(resource.text)}\n".encode()
                for shard in shards_of.get(n, every_shard):
                    files[shard - 1].write(line)


def _load(draft: Path, path: Path) -> Shard:
    with Store.open(path, create=True) as store:
        if draft.stat().st_size:
            store.load([draft], strict=True)
        counts = store.counts()
    patients = counts.get("Patient", 0)
    return Shard(path, patients, resources=sum(counts.values()))
