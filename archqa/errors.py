"""What can go wrong, divided by who must act.

    ArchqaError
    ├── CallerError        exit 2   the command was called wrongly: change the call
    ├── InputError         exit 3   a file is absent or malformed: mend the file (every mistake of it at once)
    ├── MissingExtra       exit 3   an optional part is not installed: install it
    ├── ModelError         exit 4   the model's server will not do: mend the server, key or model name
    │   ├── AuthenticationFailed    the key is refused; nothing is tried again
    │   ├── ModelNotFound           the server does not know this model
    │   └── ServerUnavailable       tried again in vain
    ├── BudgetExceeded     exit 4   the spending limit is reached; resumable
    └── CaseFailed         exit 1   one case ended without an answer; the run goes on
        ├── Refused                 the model declined, or its provider's filter did
        ├── Truncated               the reply was cut off at its token limit
        ├── ContextTooLong          the prompt does not fit the model
        └── Unusable                every repair turn failed the agent's check

Every message says what happened, then what to do. None holds record text.
"""

from collections.abc import Iterable
from pathlib import Path


class ArchqaError(Exception):
    """Something foreseen went wrong; `exit_code` is what the command line ends with."""

    exit_code = 1


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


class MissingExtra(ArchqaError):
    """An optional part is not installed."""

    exit_code = 3

    def __init__(self, what: str, extra: str = "") -> None:
        wanted = f"'archqa[{extra}]'" if extra else "archqa"
        super().__init__(f"{what} is not installed.\nInstall it with: pip install {wanted}")


class ModelError(ArchqaError):
    """The model's server will not do what is asked of it."""

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
    """One case, or one stage of it, ended without a usable output."""


class Refused(CaseFailed):
    """The model declined to answer, or a content filter stopped it."""


class Truncated(CaseFailed):
    """The reply was cut off at its token limit."""


class ContextTooLong(CaseFailed):
    """The prompt does not fit the model's context window."""


class Unusable(CaseFailed):
    """The model's replies failed the agent's check, repair turns included."""
