"""Exceptions, divided by who must act.

    ArchqaError
    ├── CallerError        exit 2   the command was called wrongly: change the call
    ├── InputError         exit 3   a file is absent or malformed: correct the file (all mistakes are reported at once)
    ├── StorageError       exit 3   a place cannot be read or written: free space, change its permissions, name another
    ├── MissingExtra       exit 3   an optional part is not installed: install it
    ├── PlugInError        exit 3   a plug-in of another package cannot be used: update or uninstall that package
    ├── ModelError         exit 4   the model's server fails: check the server, key or model name
    │   ├── AuthenticationFailed    the key is refused; no retry
    │   ├── ModelNotFound           the server does not know this model
    │   ├── Redirected              the server points to another address; no retry
    │   ├── ToolsNotSupported       the server cannot let this model call tools
    │   └── ServerUnavailable       all retries failed
    ├── BudgetExceeded     exit 4   the spending limit is reached; resumable
    └── CaseFailed         exit 1   one case ended without an answer; the run goes on
        ├── Refused                 the model declined, or its provider's filter did
        │   └── NotUnderstood       the embedded parser could not read a part of the question
        ├── Truncated               the reply was cut off at its token limit
        ├── ContextTooLong          the prompt does not fit the model
        └── Unusable                every repair turn failed the agent's check

Every message says what happened, then what to do. None holds record text.
"""

import traceback
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

_MAX_NAME_BYTES = 255
"""Of a file or folder on the usual file systems."""

_MAX_QUOTED_CHARACTERS = 80

_NOT_IN_NAMES = frozenset("\r\n\0")


def error_position(error: BaseException) -> str:
    """Return the file and line that raised an error, for a log: its message may quote a note."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}"


class ArchqaError(Exception):
    """An expected failure; the command line exits with `exit_code`."""

    exit_code = 1

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle an error with its fields, whatever arguments its class takes."""
        return _restore, (type(self), self.args, self.__dict__)


def _restore(
    error_type: type[ArchqaError], args: tuple[Any, ...], fields: dict[str, Any]
) -> ArchqaError:
    error = error_type.__new__(error_type, *args)
    error.__dict__.update(fields)
    return error


class CallerError(ArchqaError):
    """The command or function was called wrongly."""

    exit_code = 2


class InputError(ArchqaError):
    """A file is absent or malformed. Holds every mistake found in it."""

    exit_code = 3

    def __init__(
        self, path: str | Path, mistakes: Iterable[str], fix: str = ""
    ) -> None:
        self.path = shown_path(path)
        self.mistakes = tuple(mistakes)
        self.fix = fix
        lines = [f"{self.path}{mistake}" for mistake in self.mistakes]
        super().__init__("\n".join([*lines, fix] if fix else lines))


class StorageError(ArchqaError):
    """A file or folder cannot be read or written; what was stored before stays as it is."""

    exit_code = 3


class MissingExtra(ArchqaError):
    """An optional part is not installed."""

    exit_code = 3

    def __init__(self, part: str, extra: str = "") -> None:
        package = f"'archqa[{extra}]'" if extra else "archqa"
        super().__init__(
            f"{part} is not installed.\nInstall it with: pip install {package}"
        )


class PlugInError(ArchqaError):
    """A plug-in of another distribution cannot be used."""

    exit_code = 3


class ModelError(ArchqaError):
    """The model's server did not do what was requested."""

    exit_code = 4


class AuthenticationFailed(ModelError):
    """The server refuses the key."""


class ModelNotFound(ModelError):
    """The server does not know the model."""


class Redirected(ModelError):
    """The server points to another address, which archqa does not follow."""


class ToolsNotSupported(ModelError):
    """The server, as it was started, cannot let the model call tools."""


class ServerUnavailable(ModelError):
    """The server could not be reached, or kept failing."""


class BudgetExceeded(ArchqaError):
    """The spending limit of the run is reached."""

    exit_code = 4


class CaseFailed(ArchqaError):
    """One case, or one stage of it, ended without a usable output.

    `result` is the partial result of the task, such as the resources retrieved before the failure.
    `details` quotes the question or the record, and is empty if there is nothing to quote: it is
    kept and shown with the answers, while the message may go to a log.
    """

    result: object = None

    def __init__(self, message: str = "", details: str = "") -> None:
        self.details = details
        super().__init__(message)

    @property
    def full_text(self) -> str:
        """The details, else the message: for what is kept with the answers."""
        return self.details or str(self)


class Refused(CaseFailed):
    """The model declined to answer, or a content filter stopped it."""


class NotUnderstood(Refused):
    """The embedded parser could not read a part of the question, and does not guess.

    `part` holds the words, or says what is missing.
    """

    def __init__(self, part: str, why: str = "is not understood") -> None:
        self.part = part
        advice = "Say it in other words, or ask with a model."
        super().__init__(
            f"A part of the question is not understood.\n{advice}",
            f"{part!r} {why}. {advice}",
        )


class Truncated(CaseFailed):
    """The reply was cut off at its token limit."""


class ContextTooLong(CaseFailed):
    """The prompt does not fit the model's context window."""


class Unusable(CaseFailed):
    """The model's replies failed the agent's check, repair turns included."""


_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def without_suppressed_causes(
    function: Callable[_Parameters, _Result],
) -> Callable[_Parameters, _Result]:
    """Let no error of a public function keep the exception behind it.

    `raise … from None` hides that exception from tracebacks only: a crash reporter still reads it,
    and a `JSONDecodeError` holds the whole document.
    """

    @wraps(function)
    def forgetful(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        try:
            return function(*args, **kwargs)
        except ArchqaError as error:
            if error.__suppress_context__:
                error.__context__ = None
            raise

    return forgetful


def shown_path(path: str | Path) -> str:
    """A path as messages show it; of a text that can be no path, its length."""
    text = str(path)
    is_one_line = not _NOT_IN_NAMES.intersection(text)
    names = text.replace("\\", "/").split("/")
    longest = max(len(name.encode("utf-8", "surrogatepass")) for name in names)
    if is_one_line and longest <= _MAX_NAME_BYTES:
        return text
    return f"(a text of {len(text)} characters)"


def quoted(name: object) -> str:
    """A name as messages quote it; of what is no name, the type or the length."""
    if not isinstance(name, str):
        return f"(a {type(name).__name__})"
    if len(name) > _MAX_QUOTED_CHARACTERS or _NOT_IN_NAMES.intersection(name):
        return f"(a text of {len(name)} characters)"
    return f"'{name}'"
