"""One record as several, by patients: so that each machine of a cluster reads files of its own.

A shard holds everything of its patients, and what is nobody's own (wards, drugs, organizations): every shard has all
of that. A resource of several patients is in the shard of each.
"""

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import IO, NamedTuple

from archqa.errors import CallerError
from archqa.fhir.index.reference_graph import sql_number_list
from archqa.fhir.index.shards import LAYOUT_FILE_NAME, ShardLayout, shard_of, shard_path
from archqa.fhir.search import compartment
from archqa.fhir.store import Store

_AT_ONCE = 1000
"""Resources unpacked at once."""

MOST = 1024
"""Shards that can be written: each has a file open."""


class Shard(NamedTuple):
    """One shard as it was written."""

    path: Path
    patients: int
    resources: int


def split_by_patient(store: Store, shards: int, into: Path) -> list[Shard]:
    """Write so many shards of a store into a new folder.

    Raises `CallerError` for a folder that is not empty, or a number of shards that makes no sense.
    """
    if not 1 <= shards <= MOST:
        raise CallerError(f"--shards {shards} is out of range.\nBetween 1 and {MOST} can be made.")
    if into.exists() and (not into.is_dir() or any(into.iterdir())):
        raise CallerError(f"{into} exists already.\nName a new folder with --into.")
    into.mkdir(mode=0o700, parents=True, exist_ok=True)
    drafts = [
        into / f".{shard_path(into, each, shards).name}.ndjson" for each in range(1, shards + 1)
    ]
    try:
        _deal_out(store, drafts)
        made = [
            _load(draft, shard_path(into, each, shards))
            for each, draft in enumerate(drafts, start=1)
        ]
    finally:
        for draft in drafts:
            draft.unlink(missing_ok=True)
    # Last: a folder without it was not finished.
    with _private(into / LAYOUT_FILE_NAME) as file:
        file.write(json.dumps(ShardLayout(shards=shards).model_dump(), indent=2) + "\n")
    return made


def _deal_out(store: Store, drafts: list[Path]) -> None:
    """Each resource into the drafts of its patients, or of all."""
    every = range(1, len(drafts) + 1)
    with store.reading() as session, ExitStack() as stack:
        files = [stack.enter_context(_private(each)) for each in drafts]
        for numbers, homes in _batches(session.connection, len(drafts)):
            texts = (text for _, _, text in store._searcher(session).resources(numbers))
            for n, text in zip(numbers, texts, strict=True):
                for shard in homes.get(n, every):
                    files[shard - 1].write(f"{_on_one_line(text)}\n")


def _batches(
    connection: sqlite3.Connection, shards: int
) -> Iterator[tuple[list[int], dict[int, set[int]]]]:
    """The numbers of all resources, some at a time, with the shards of those that are somebody's."""
    last = -1
    while numbers := [n for (n,) in connection.execute(_NEXT, (last, _AT_ONCE))]:
        owned = _owned(connection, numbers[0], numbers[-1])
        yield (
            numbers,
            {
                n: {shard_of(name, shards) for _, name in rows}
                for n, rows in groupby(owned, itemgetter(0))
            },
        )
        last = numbers[-1]


_NEXT = "SELECT n FROM resource WHERE n > ? ORDER BY n LIMIT ?"

_OWNED = """
SELECT x.n, t.id FROM reference x JOIN target t ON t.t = x.t
WHERE x.n BETWEEN ? AND ? AND x.p IN ({}) AND t.type IN ('Patient', '')
UNION
SELECT n, id FROM resource WHERE n BETWEEN ? AND ? AND type = (SELECT k FROM type WHERE name = 'Patient')
ORDER BY 1
"""


def _owned(connection: sqlite3.Connection, first: int, last: int) -> list[tuple[int, str]]:
    """Resources between two numbers and the patients they are about, in order."""
    statement = _OWNED.format(sql_number_list(compartment.owner_elements(connection)))
    return connection.execute(statement, (first, last, first, last)).fetchall()


def _load(draft: Path, path: Path) -> Shard:
    with Store.open(path, create=True) as store:
        if draft.stat().st_size:
            store.load([draft], strict=True)
        counts = store.counts()
    return Shard(path, counts.get("Patient", 0), sum(counts.values()))


def _on_one_line(text: str) -> str:
    """JSON text without its line ends, which in JSON stand between values only."""
    return text.replace("\r", " ").replace("\n", " ")


def _private(path: Path) -> IO[str]:
    return os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
        "w",
        encoding="utf-8",
        newline="\n",
    )
