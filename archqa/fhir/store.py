"""A record in one SQLite file: loaded in a minute, searched in milliseconds, read by many threads.

store = Store.open("record.db")
store.search("Observation?patient=123&code=2160-0&_sort=-date").resources
"""

import sqlite3
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from weakref import WeakSet

from archqa.errors import InputError
from archqa.fhir.index import loading, schema
from archqa.fhir.index.load_report import LoadProgress, LoadReport
from archqa.fhir.local_record import LocalRecord, ReadSession
from archqa.fhir.profile import ARCHQA, Profile, get_profile
from archqa.safety.arguments import as_path


class Store(LocalRecord):
    """A record in one SQLite file. Every thread reads through a connection of its own."""

    def __init__(self, path: Path, profile: Profile) -> None:
        super().__init__(path, profile)
        self._local = threading.local()
        # Weak references: when a thread ends, its session is freed and its connection closes.
        self._sessions: WeakSet[ReadSession] = WeakSet()
        self._lock = threading.Lock()

    @classmethod
    def open(
        cls, path: str | Path, profile: str | Profile = ARCHQA, *, create: bool = False
    ) -> "Store":
        """Open a record; `create` makes an empty one if there is none.

        Raises `InputError` if there is no record, `CallerError` if there is no such profile.
        """
        store = cls(as_path(path, "The record"), get_profile(profile))
        if create:
            schema.open_connection(store.path, write=True).close()
        store.session()
        return store

    def as_profile(self, profile: str | Profile) -> "Store":
        """Return the same record with another profile. Raises `CallerError` if there is none."""
        return Store(self.path, get_profile(profile))

    def load(
        self,
        paths: Iterable[str | Path],
        *,
        strict: bool = False,
        progress: Callable[[LoadProgress], None] | None = None,
    ) -> LoadReport:
        """Load NDJSON, Bundles, resources (also gzipped) and folders of them: all, or nothing.

        Raises `InputError` for absent files, wrong checksums and, if `strict`, bad lines.
        """
        connection = schema.open_connection(self.path, write=True)
        try:
            return loading.load(
                connection,
                paths,
                strict=strict,
                progress=progress,
            )
        except sqlite3.OperationalError as error:
            fix = "Nothing was loaded. Is there room on the disk, or another load under way?"
            raise InputError(self.path, [f": cannot be written ({error})."], fix) from None
        finally:
            connection.close()

    def session(self) -> ReadSession:
        """Return the session of the calling thread."""
        session: ReadSession | None = getattr(self._local, "session", None)
        if session is None:
            session = ReadSession(schema.open_connection(self.path, write=False))
            with self._lock:
                self._sessions.add(session)
            self._local.session = session
        return session

    def close(self) -> None:
        """Close every connection. A later search opens a new one."""
        with self._lock:
            for session in self._sessions:
                session.connection.close()
            self._sessions.clear()
            self._local = threading.local()
