"""Threads in private files, by the name of their session.

    SessionFolder().load("ward-3")

A file is readable by its owner alone (0600, in a folder of 0700): it holds questions, answers and a
given note. Processes that write the same session wait for each other.
"""

import json
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from archqa.asking.thread import Place, Thread, Turn
from archqa.core.value import FrozenModel
from archqa.errors import CallerError, InputError, StorageError
from archqa.safety.files import (
    LocksUnsupported,
    acquire_lock,
    release_lock,
    storage_errors,
    write_private_text,
)
from archqa.settings.model import user_folder

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_SUFFIX = ".json"
_WAIT_SECONDS = 10.0
_POLL_SECONDS = 0.02


class _SessionFile(FrozenModel):
    """The content of a file."""

    place: Place
    turns: tuple[Turn, ...]


class SessionEntry(NamedTuple):
    """A session's name and what it is about: the id of a patient, or empty for a note.

    `is_readable` is False for a damaged file.
    """

    name: str
    patient_id: str
    is_readable: bool = True


class SessionFolder:
    """The sessions of this user, in `$XDG_DATA_HOME/archqa/sessions`. Methods raise `StorageError`."""

    def __init__(self, folder: Path | None = None) -> None:
        if folder is None:
            folder = user_folder("XDG_DATA_HOME", ".local", "share") / "sessions"
        self.folder = folder

    def load(self, name: str) -> Thread:
        """Return the thread of a session, an empty one if there is none.

        Raises `CallerError` for what is no name, and `InputError` for a damaged file.
        """
        path = self._path(name)
        content = self._read(path)
        return Thread(content.place, content.turns) if content else Thread()

    def add(
        self, name: str, place: Place, turns: Sequence[Turn], *, anew: bool = False
    ) -> None:
        """Add turns to a session, behind what other processes have added; `anew` drops the former.

        Raises `CallerError` if another process has begun it about something else meanwhile.
        """
        path = self._path(name)
        with storage_errors(path):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.folder.chmod(0o700)
            with _locked(path.with_suffix(".lock")):
                former = None if anew else self._read(path)
                if former is not None and _subject(former.place) != _subject(place):
                    raise CallerError(other_place_message(name))
                thread = Thread(place, (*(former.turns if former else ()), *turns))
                content = _SessionFile(place=place, turns=thread.turns)
                write_private_text(path, content.model_dump_json())

    def forget(self, name: str) -> bool:
        """Remove a session; return whether there was one."""
        path = self._path(name)
        with storage_errors(path):
            if not path.exists():
                return False
            with _locked(path.with_suffix(".lock")):
                path.unlink(missing_ok=True)
        return True

    def entries(self) -> list[SessionEntry]:
        """Return the sessions, by name, also those whose files are damaged."""
        entries = []
        with storage_errors(self.folder):
            paths = sorted(self.folder.glob(f"*{_SUFFIX}"))
        for path in paths:
            try:
                content = self._read(path)
            except InputError:
                entries.append(SessionEntry(path.stem, "", is_readable=False))
                continue
            if content is not None:
                entries.append(SessionEntry(path.stem, content.place.patient_id))
        return entries

    def _path(self, name: str) -> Path:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise CallerError(
                "A session's name has letters, digits, dots, hyphens and underscores, 64 at most, "
                "and begins with a letter or digit.\nName it as --session ward-3."
            )
        return self.folder / f"{name}{_SUFFIX}"

    def _read(self, path: Path) -> _SessionFile | None:
        with storage_errors(path):
            if not path.exists():
                return None
            content = path.read_bytes()
        try:
            return _SessionFile.model_validate(json.loads(content))
        except (ValueError, ValidationError, RecursionError):
            advice = f"Remove it with: archqa ask --session {path.stem} --forget"
            raise InputError(path, [": is no session of archqa."], advice) from None


def other_place_message(name: str) -> str:
    """Return the message for a session that is about another patient or note."""
    session = f"The session {name}" if name else "The thread"
    return (
        f"{session} is about another patient or another note.\n"
        "Name another session, or begin this one anew with --new-session."
    )


def _subject(place: Place) -> tuple[str | None, ...]:
    return (place.note, place.patient_id, place.record)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of a session; where the file system has none, go on without."""
    give_up_at = time.monotonic() + _WAIT_SECONDS
    try:
        while (descriptor := acquire_lock(path)) is None:
            if time.monotonic() > give_up_at:
                raise StorageError(
                    "Another process is writing this session.\nAsk again when it has ended."
                )
            time.sleep(_POLL_SECONDS)
    except LocksUnsupported:
        yield
        return
    try:
        yield
    finally:
        release_lock(path, descriptor)
