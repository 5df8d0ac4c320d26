"""The tables of a note index: in a record's file beside its resources, or in memory.

A sentence that stands in several notes of a patient is stored once. Sentences are numbered by
patient (`sentence_numbers`), so that a search in one patient's notes reads no other patient's.
`note_words` is an FTS5 table (sqlite.org/fts5.html) with the Porter stemmer.
"""

from sqlite3 import Connection

VERSION = 1
"""Of the tables and of what is in them; an index of another version is made anew."""

BITS_OF_A_PATIENT = 24
"""A patient has at most 2**24 different sentences."""

TABLES = {
    "note_document": "n INTEGER PRIMARY KEY, patient INTEGER NOT NULL, name TEXT NOT NULL,"
    " date TEXT NOT NULL, title TEXT NOT NULL, kind TEXT NOT NULL, author TEXT NOT NULL,"
    " encounter TEXT NOT NULL, unread TEXT NOT NULL, outline BLOB NOT NULL",
    "note_source": "document INTEGER, name TEXT, version INTEGER, PRIMARY KEY (document, name)",
    "note_sentence": "s INTEGER PRIMARY KEY, uses INTEGER NOT NULL, text TEXT NOT NULL,"
    " vector BLOB NOT NULL",
    "note_version": "version INTEGER NOT NULL",
}
"""`note_source` has the resources that a document was read from: itself, and its Binary resources.

An `outline` has four 32-bit integers for each sentence: its number within the patient's, where it
begins, its paragraph, and its line. It is empty for a document without text.
"""

INTEGERS_OF_A_SENTENCE = 4
"""In an outline."""

_WORDS = (
    "CREATE VIRTUAL TABLE note_words USING fts5(text, content='note_sentence',"
    " content_rowid='s', detail=none, tokenize='porter unicode61 remove_diacritics 2')"
)
_INDEX = "CREATE INDEX note_document_patient ON note_document (patient)"


def create_note_tables(connection: Connection) -> None:
    """Create the tables where they are absent, or in place of those of another version."""
    if has_note_tables(connection):
        return
    drop_note_tables(connection)
    for name, columns in TABLES.items():
        without_rowid = " WITHOUT ROWID" if name == "note_source" else ""
        connection.execute(f"CREATE TABLE {name} ({columns}){without_rowid}")
    connection.execute(_INDEX)
    connection.execute(_WORDS)
    connection.execute("INSERT INTO note_version VALUES (?)", (VERSION,))


def drop_note_tables(connection: Connection) -> None:
    """Drop the tables; the notes themselves stay in their resources."""
    for name in ("note_words", *TABLES):
        connection.execute(f"DROP TABLE IF EXISTS {name}")


def has_note_tables(connection: Connection) -> bool:
    """Whether the tables are there, of this version."""
    sql = "SELECT count(*) FROM sqlite_master WHERE name = 'note_version'"
    if not connection.execute(sql).fetchone()[0]:
        return False
    stored = connection.execute("SELECT version FROM note_version").fetchone()
    return bool(stored == (VERSION,))


def sentence_numbers(patient: int) -> range:
    """Return the numbers that the sentences of a patient may have."""
    return range(patient << BITS_OF_A_PATIENT, (patient + 1) << BITS_OF_A_PATIENT)
