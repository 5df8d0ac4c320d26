"""The record as a file beside us: loaded in a minute, searched in milliseconds, read by any number of threads.

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
from archqa.fhir.index.loading import LoadProgress, LoadReport
from archqa.fhir.local_record import LocalRecord, ReadSession
from archqa.fhir.profile import ARCHQA, Profile, get_profile


class Store(LocalRecord):
    """A record in one SQLite file. Reading is safe from several threads; each has a connection of its own."""

    def __init__(self, path: Path, ways: Profile) -> None:
        super().__init__(path, ways)
        self._local = threading.local()
        # Weak: the session of a thread that has ended closes its connection by itself.
        self._sessions: WeakSet[ReadSession] = WeakSet()
        self._lock = threading.Lock()

    @classmethod
    def open(
        cls, path: str | Path, ways: str | Profile = ARCHQA, *, create: bool = False
    ) -> "Store":
        """Open a record; `create` makes an empty one where there is none. `ways` is a profile or its name.

        Raises `InputError` if there is no record, `CallerError` if there is no such profile.
        """
        store = cls(Path(path), get_profile(ways))
        if create:
            schema.open_connection(store.path, write=True).close()
        store.session()
        return store

    def as_profile(self, ways: str | Profile) -> "Store":
        """The same record with the ways of another server. Raises `CallerError` if there is no such profile."""
        return Store(self.path, get_profile(ways))

    def load(
        self,
        paths: Iterable[str | Path],
        *,
        strict: bool = False,
        progress: Callable[[LoadProgress], None] | None = None,
    ) -> LoadReport:
        """Load NDJSON, Bundles, single resources (also gzipped) and folders of them: all, or nothing.

        Raises `InputError` for absent files, wrong checksums and, if `strict`, bad lines.
        """
        connection = schema.open_connection(self.path, write=True)
        try:
            return loading.load(connection, paths, strict=strict, progress=progress)
        except sqlite3.OperationalError as error:
            fix = "Nothing was loaded. Is there room on the disk, or another load under way?"
            raise InputError(self.path, [f": cannot be written ({error})."], fix) from None
        finally:
            connection.close()

    def session(self) -> ReadSession:
        """The session of the calling thread."""
        found: ReadSession | None = getattr(self._local, "session", None)
        if found is None:
            found = ReadSession(schema.open_connection(self.path, write=False))
            with self._lock:
                self._sessions.add(found)
            self._local.session = found
        return found

    def close(self) -> None:
        """Close every connection. A search opens a new one."""
        with self._lock:
            for session in self._sessions:
                session.connection.close()
            self._sessions.clear()
            self._local = threading.local()
