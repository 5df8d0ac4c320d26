"""Split a record into shards by patient, so that each machine of a cluster reads its own files.

A shard holds all resources of its patients. A resource of several patients is in the shard of each;
a resource of no patient (ward, drug, organization) is in every shard.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from sqlite3 import Connection
from typing import NamedTuple

from archqa.errors import CallerError
from archqa.fhir.index.reference_graph import sql_number_list
from archqa.fhir.search.shared_resources import owner_elements
from archqa.fhir.sharded_store import LAYOUT_FILE_NAME, ShardLayout, shard_of, shard_path
from archqa.fhir.store import Store
from archqa.fhir.values.text import on_one_line
from archqa.safety.files import private_draft, storage_errors, write_private_text

_BATCH_SIZE = 1000
"""Resources that are decompressed at once."""

MAX_SHARDS = 1024
"""Each shard has a file open while it is written."""


class Shard(NamedTuple):
    """One shard as it was written: its file, and the numbers of patients and resources in it."""

    path: Path
    patients: int
    resources: int


def split_by_patient(store: Store, shards: int, into: Path) -> list[Shard]:
    """Write the shards of a store into a new folder.

    A split that fails removes its folder again. Raises `CallerError` for a folder that is not
    empty, or a number of shards out of range, and `StorageError`.
    """
    with storage_errors(into):
        _check_request(shards, into)
        into.mkdir(mode=0o700, parents=True, exist_ok=True)
    paths = []
    drafts = []
    for number in range(1, shards + 1):
        path = shard_path(into, number, shards)
        paths.append(path)
        drafts.append(into / f".{path.name}.ndjson")
    try:
        with storage_errors(into):
            _write_drafts(store, drafts)
            written = list(map(_load, drafts, paths))
            for draft in drafts:
                draft.unlink(missing_ok=True)
            # The layout comes last: a folder without it is incomplete.
            _write_layout(into, shards)
    except BaseException:
        shutil.rmtree(into, ignore_errors=True)
        raise
    return written


def _check_request(shards: int, into: Path) -> None:
    if not 1 <= shards <= MAX_SHARDS:
        limits = f"Between 1 and {MAX_SHARDS} can be made."
        raise CallerError(f"--shards {shards} is out of range.\n{limits}")
    is_empty_folder = into.is_dir() and not any(into.iterdir())
    if into.exists() and not is_empty_folder:
        raise CallerError(f"{into} exists already.\nName a new folder with --into.")


def _write_layout(folder: Path, shards: int) -> None:
    layout = ShardLayout(shards=shards)
    text = json.dumps(layout.model_dump(), indent=2)
    write_private_text(folder / LAYOUT_FILE_NAME, f"{text}\n")


def _write_drafts(store: Store, drafts: list[Path]) -> None:
    """Write each resource to the drafts of its patients, or to all drafts."""
    every_shard = range(1, len(drafts) + 1)
    with store.read_session() as session, ExitStack() as stack:
        files = [stack.enter_context(private_draft(draft)) for draft in drafts]
        searcher = store.searcher(session)
        for numbers, shards_of in _batches(session.connection, len(drafts)):
            resources = searcher.fetch(numbers)
            for n, resource in zip(numbers, resources, strict=True):
                line = f"{on_one_line(resource.text)}\n".encode()
                for shard in shards_of.get(n, every_shard):
                    files[shard - 1].write(line)


def _batches(
    connection: Connection, shards: int
) -> Iterator[tuple[list[int], dict[int, set[int]]]]:
    """Yield the numbers of all resources in batches, with the shards of those of a patient."""
    last = -1
    while numbers := _next_numbers(connection, last):
        last = numbers[-1]
        shards_of: dict[int, set[int]] = {}
        for n, patient in _owners(connection, numbers[0], last):
            shard = shard_of(patient, shards)
            shards_of.setdefault(n, set()).add(shard)
        yield numbers, shards_of


def _next_numbers(connection: Connection, last: int) -> list[int]:
    sql = "SELECT n FROM resource WHERE n > ? ORDER BY n LIMIT ?"
    return [n for (n,) in connection.execute(sql, (last, _BATCH_SIZE))]


_OWNERS_SQL = """
SELECT x.n, t.id FROM reference x JOIN target t ON t.t = x.t
WHERE x.n BETWEEN ? AND ? AND x.p IN ({}) AND t.type IN ('Patient', '')
UNION
SELECT n, id FROM resource
WHERE n BETWEEN ? AND ? AND type = (SELECT k FROM type WHERE name = 'Patient')
"""


def _owners(connection: Connection, start: int, end: int) -> list[tuple[int, str]]:
    """Return the resources from number `start` to `end` with the patients they are about."""
    sql = _OWNERS_SQL.format(sql_number_list(owner_elements(connection)))
    return connection.execute(sql, (start, end, start, end)).fetchall()


def _load(draft: Path, path: Path) -> Shard:
    with Store.open(path, create=True) as store:
        if draft.stat().st_size:
            store.load([draft], strict=True)
        counts = store.counts()
    patients = counts.get("Patient", 0)
    return Shard(path, patients, resources=sum(counts.values()))
