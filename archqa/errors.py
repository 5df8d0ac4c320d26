"""Exceptions, divided by who must act.

    ArchqaError
    ├── CallerError        exit 2   the command was called wrongly: change the call
    ├── InputError         exit 3   a file is absent or malformed: correct the file (all mistakes are reported at once)
    ├── StorageError       exit 3   a place cannot be read or written: free space, change its permissions, name another
    ├── MissingExtra       exit 3   an optional part is not installed: install it
    ├── ModelError         exit 4   the model's server fails: check the server, key or model name
    │   ├── AuthenticationFailed    the key is refused; no retry
    │   ├── ModelNotFound           the server does not know this model
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

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from archqa.core.result import TaskResult


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

    def __init__(self, path: str | Path, mistakes: Iterable[str], fix: str = "") -> None:
        self.path = str(path)
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
        super().__init__(f"{part} is not installed.\nInstall it with: pip install {package}")


class ModelError(ArchqaError):
    """The model's server did not do what was requested."""

    exit_code = 4


class AuthenticationFailed(ModelError):
    """The server refuses the key."""


class ModelNotFound(ModelError):
    """The server does not know the model."""


class ServerUnavailable(ModelError):
    """The server could not be reached, or kept failing."""


class BudgetExceeded(ArchqaError):
    """The spending limit of the run is reached."""

    exit_code = 4


class CaseFailed(ArchqaError):
    """One case, or one stage of it, ended without a usable output.

    `result` is the partial result of the task, such as the resources retrieved before the failure.
    """

    result: "TaskResult | None" = None


class Refused(CaseFailed):
    """The model declined to answer, or a content filter stopped it."""


class NotUnderstood(Refused):
    """The embedded parser could not read a part of the question, and does not guess.

    `part` holds the words, or says what is missing.
    """

    def __init__(self, part: str, why: str = "is not understood") -> None:
        self.part = part
        super().__init__(f"{part!r} {why}. Say it in other words, or ask with a model.")


class Truncated(CaseFailed):
    """The reply was cut off at its token limit."""


class ContextTooLong(CaseFailed):
    """The prompt does not fit the model's context window."""


class Unusable(CaseFailed):
    """The model's replies failed the agent's check, repair turns included."""
