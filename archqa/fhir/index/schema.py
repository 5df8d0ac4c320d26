"""The SQLite file of a record: tables, indexes, and opening it.

Every resource has a number `n`. `element.p` numbers the indexed elements (type, kind, path),
`term.t` the codes, `target.t` the targets of references. Each index row repeats the patient whose
record the resource belongs to (`target.t`, 0 for none), since most searches name one. The primary
key of an index table leads from a resource to its values, its other index from a value to
resources.

The halves of a composite parameter must hold in the same item of a repeated element, such as a
component of an Observation, so an item has index rows of its own. Their number is negative and made
of the resource's and the item's: no table is needed to get from one to the other.
"""

import hashlib
import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from sqlite3 import Connection

from archqa.errors import InputError
from archqa.fhir.index.sql import first_cell
from archqa.fhir.request_budget import BudgetedConnection

APPLICATION_ID = 0x61464852
VERSION = 1

LOCK_TIMEOUT = 30.0
"""Seconds to wait for another process that writes."""

TABLE_COLUMNS = {
    "type": "k INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE",
    "element": "p INTEGER PRIMARY KEY, type TEXT NOT NULL, kind TEXT NOT NULL, path TEXT NOT NULL,"
    " longest INTEGER NOT NULL, used INTEGER NOT NULL, UNIQUE (type, kind, path)",
    "term": "t INTEGER PRIMARY KEY, system TEXT, code TEXT, folded TEXT, words TEXT, display TEXT",
    "target": "t INTEGER PRIMARY KEY, id TEXT NOT NULL, type TEXT NOT NULL, UNIQUE (id, type)",
    "dictionary": "d INTEGER PRIMARY KEY, content BLOB NOT NULL",
    "resource": "n INTEGER PRIMARY KEY, type INTEGER NOT NULL, id TEXT NOT NULL,"
    " version INTEGER NOT NULL, updated INTEGER NOT NULL, d INTEGER NOT NULL, body BLOB NOT NULL",
    "token": "n INTEGER, p INTEGER, t INTEGER, patient INTEGER, PRIMARY KEY (n, p, t, patient)",
    "reference": "n INTEGER, p INTEGER, t INTEGER, patient INTEGER, PRIMARY KEY (n, p, t, patient)",
    "date": "n INTEGER, p INTEGER, low INTEGER, high INTEGER, low_utc INTEGER, high_utc INTEGER,"
    " patient INTEGER, PRIMARY KEY (n, p, low, high, low_utc, high_utc, patient)",
    "quantity": "n INTEGER, p INTEGER, low REAL, high REAL, t INTEGER, patient INTEGER,"
    " PRIMARY KEY (n, p, low, high, t, patient)",
    "string": "n INTEGER, p INTEGER, folded TEXT, exact TEXT, patient INTEGER,"
    " PRIMARY KEY (n, p, folded, exact, patient)",
    "vocabulary": "p INTEGER, t INTEGER, PRIMARY KEY (p, t)",
    "setting": "name TEXT PRIMARY KEY, value TEXT NOT NULL",
}

INDEX_COLUMN_COUNTS = {
    "token": 4,
    "reference": 4,
    "date": 7,
    "quantity": 6,
    "string": 5,
}
"""The number of columns of each index table."""

INDEXES = {
    "resource_id": "resource (id, type)",
    "resource_type": "resource (type)",
    "term_code": "term (code)",
    "term_folded": "term (folded) WHERE folded IS NOT NULL",
    "term_words": "term (words) WHERE words IS NOT NULL",
    "token_value": "token (p, t, patient)",
    "reference_value": "reference (p, t, patient)",
    "date_patient": "date (p, patient, low)",
    "date_value": "date (p, low)",
    "quantity_patient": "quantity (p, patient, low)",
    "quantity_value": "quantity (p, low)",
    "string_value": "string (p, folded)",
}

OF_TYPE = ":of-type"
"""Follows the path of Identifiers in the name of the element that has their types too."""

REFERENCE_IDENTIFIER = ".identifier"
"""Follows the path of references in the name of the element that has their identifiers."""

SHARED = "shared:"
"""`setting` has this and a type if any resource of the type is about many patients.

The rows of such a resource have patient 0, like those of no patient.
"""

UNINDEXED = "unindexed:"
"""`setting` has this and a type if any resource of the type has references without index rows."""

MALFORMED = "malformed:"
"""`setting` has this and `Type/id` of a malformed resource; its value is the patient, if known."""

_ITEM_BITS = 20

MAX_ITEMS = 2**_ITEM_BITS
"""Items of a group that are indexed; a line of a file has room for hardly more."""

RESOURCE_OF_ITEM_SQL = f"~({{0}}) >> {_ITEM_BITS}"
"""The number of an item's resource, as SQL: the column is filled in."""

_PRIMARY_CODE = 0xFF
"""The bits of an SQLite error code that say what failed; the others say where."""

_STORAGE_CODES = {
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
}

_WITHOUT_ROWID = {*INDEX_COLUMN_COUNTS, "vocabulary"}


def item_number(n: int, index: int) -> int:
    """Return the number of an item of resource `n`."""
    return ~(n << _ITEM_BITS | index)


def resource_of_item(number: int) -> int:
    """Return the number of an item's resource."""
    return ~number >> _ITEM_BITS


def renumbered_item(number: int, n: int) -> int:
    """Return the number of the same item of a resource that is now called `n`."""
    return item_number(n, ~number & MAX_ITEMS - 1)


class RecordLocked(InputError):
    """Another process is writing the file; try again later."""


def open_connection(path: Path, *, write: bool) -> Connection:
    """Open a record's file; with `write`, a new one is created if needed.

    Raises `InputError` if there is no such file, or it is no record.
    """
    if write:
        _create_private_file(path)
    elif not path.is_file():
        fix = "Make one with: archqa fhir load DIR --into record.db"
        raise InputError(path, [": no such record."], fix)
    try:
        connection = sqlite3.connect(
            f"{path.resolve().as_uri()}?mode={'rw' if write else 'ro'}",
            uri=True,
            isolation_level=None,
            timeout=LOCK_TIMEOUT,
            check_same_thread=False,
            factory=BudgetedConnection,
        )
    except sqlite3.OperationalError as error:
        raise InputError(path, [f": cannot be opened ({error})."]) from None
    try:
        if write:
            _initialise(connection)
        _check(connection, path)
    except sqlite3.DatabaseError as error:
        connection.close()
        if "locked" in str(error):
            fix = "Wait until it is done."
            raise RecordLocked(path, [": another load is writing it."], fix) from None
        if (
            write and path.stat().st_size == 0
        ):  # The file of a record that could not be begun.
            path.unlink()
        if error.sqlite_errorcode & _PRIMARY_CODE in _STORAGE_CODES:
            fix = "Is there room on the disk, and may you read and write the file?"
            raise InputError(
                path, [f": cannot be read or written ({error})."], fix
            ) from None
        raise InputError(
            path, [f": is no record ({error})."], "Name another file."
        ) from None
    except InputError:
        connection.close()
        raise
    connection.execute("PRAGMA cache_size = -65536")
    connection.execute("PRAGMA mmap_size = 1073741824")
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


def remove_if_empty(path: Path) -> None:
    """Remove the file of a record without resources, unless another process writes it."""
    with (
        closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as connection,
        suppress(sqlite3.Error),
    ):
        connection.execute("BEGIN IMMEDIATE")
        query = "SELECT EXISTS (SELECT 1 FROM resource)"
        if not first_cell(connection, query):
            path.unlink(missing_ok=True)


def create_tables(connection: Connection) -> None:
    """Create the tables."""
    for name, columns in TABLE_COLUMNS.items():
        without_rowid = " WITHOUT ROWID" if name in _WITHOUT_ROWID else ""
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS main.{name} ({columns}){without_rowid}"
        )


def create_indexes(connection: Connection) -> None:
    """Create the indexes that lead from a value to resources."""
    for name, columns in INDEXES.items():
        unique = "UNIQUE " if name == "resource_id" else ""
        connection.execute(
            f"CREATE {unique}INDEX IF NOT EXISTS main.{name} ON {columns}"
        )


def drop_indexes(connection: Connection) -> None:
    """Drop the indexes: building them after a big load is faster than updating them."""
    for name in INDEXES:
        connection.execute(f"DROP INDEX IF EXISTS {name}")


def fingerprint() -> str:
    """Return a digest of the table of search parameters.

    A file that was indexed with another table would give wrong results.
    """
    content = (
        Path(__file__).parents[1] / "values" / "search_parameters.tsv"
    ).read_bytes()
    return hashlib.sha256(content).hexdigest()[:16]


def _initialise(connection: Connection) -> None:
    """Make an empty file a record; leave any other file unchanged."""
    if first_cell(connection, "SELECT count(*) FROM sqlite_master"):
        return
    connection.execute("PRAGMA page_size = 8192")
    connection.execute("BEGIN IMMEDIATE")
    create_tables(connection)
    create_indexes(connection)
    connection.execute("INSERT INTO setting VALUES ('parameters', ?)", (fingerprint(),))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def _check(connection: Connection, path: Path) -> None:
    """Raise `InputError` unless the file is a record of this version."""
    if first_cell(connection, "PRAGMA application_id") != APPLICATION_ID:
        raise InputError(
            path, [": is no record of archqa."], "Name another file, or a new one."
        )
    version = first_cell(connection, "PRAGMA user_version")
    sql = "SELECT value FROM setting WHERE name = 'parameters'"
    if version != VERSION or first_cell(connection, sql) != fingerprint():
        raise InputError(
            path,
            [": was made by another version of archqa."],
            "Load the data again into a new file: archqa fhir load DIR --into record.db",
        )


def _create_private_file(path: Path) -> None:
    """Create a file that only its owner may read: it holds record text."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise InputError(path, [f": cannot be written ({error.strerror})."]) from None
