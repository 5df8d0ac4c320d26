"""`archqa ask --session`: the calls that list and remove sessions, and what does not go together."""

from pathlib import Path
from typing import TYPE_CHECKING

from archqa.cli.console import print_json, print_line, print_notice
from archqa.errors import CallerError, InputError

if TYPE_CHECKING:
    from archqa.asking.thread.session_files import SessionFolder


def list_or_forget(
    session: str | None, question: str | None, *, forget: bool, as_json: bool
) -> None:
    """Remove a session, or list all. Raises `CallerError` as `forget_session`."""
    if forget:
        forget_session(session, question)
    else:
        print_sessions(as_json=as_json)


def begin_session(session: str | None, *, anew: bool) -> None:
    """Drop what a session held before, if it begins anew."""
    if session is not None and anew:
        _sessions().forget(session)


def print_sessions(*, as_json: bool) -> None:
    """Print the names of the sessions and the ids of their patients, and nothing of their content."""
    entries = _sessions().entries()
    if as_json:
        print_json([entry._asdict() for entry in entries])
        return
    for entry in entries:
        about = f"patient {entry.patient_id}" if entry.patient_id else "a note"
        print_line(f"{entry.name}  {about if entry.is_readable else 'damaged'}")
    if not entries:
        print_notice("There are no sessions.")


def forget_session(session: str | None, question: str | None) -> None:
    """Remove a session. Raises `CallerError` without a name, or with a question."""
    if session is None:
        raise CallerError("--forget removes a session.\nName it with --session NAME.")
    if question is not None:
        raise CallerError(
            "--forget removes a session and asks nothing.\n"
            "Leave the question out, or begin the session anew with --new-session."
        )
    was_there = _sessions().forget(session)
    print_notice(f"Session {session} removed." if was_there else f"There is no session {session}.")


def check_session(session: str | None, questions: Path | None, *, new_session: bool) -> None:
    """Raise `CallerError` for a session with a file of questions, and where its name is missing."""
    if session is not None and questions is not None:
        raise CallerError(
            "A file of questions is no session: its rows are asked one by one.\n"
            "Leave --session out."
        )
    if new_session and session is None:
        raise CallerError("--new-session begins a session anew.\nName it with --session NAME.")


def record_of_session(session: str | None) -> str | None:
    """Return the record that a session asks; None if it has none, or cannot be read now."""
    if session is None:
        return None
    try:
        place = _sessions().load(session).place
    except InputError:  # Told where the question is asked.
        return None
    return place.record if place else None


def _sessions() -> "SessionFolder":
    from archqa.asking.thread.session_files import SessionFolder  # Few calls have a session.

    return SessionFolder()
