"""The scripts by which a shell asks for completions: typer's own, printed or installed."""

import os
from pathlib import Path
from typing import Any

import typer.completion

from archqa.cli.completion import VARIABLE
from archqa.core.near_misses import unknown_name

_typer: Any = typer.completion
"""Typer exports neither function by its types."""

_PROGRAM = "archqa"

_SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")


def script_for(shell: str) -> str:
    """Return the script that teaches a shell to ask, `auto` the one that is running.

    Raises `CallerError` for a shell that is not known.
    """
    name = _known_shell(shell)
    script: str = _typer.get_completion_script(
        prog_name=_PROGRAM, complete_var=VARIABLE, shell=name
    )
    return script


def install_for(shell: str) -> str:
    """Write the script where the shell reads it, and return what was done.

    Raises `CallerError` for a shell that is not known.
    """
    name = _known_shell(shell)
    _, path = _typer.install(shell=name, prog_name=_PROGRAM, complete_var=VARIABLE)
    return f"Completion for {name} is in {path}. It takes effect in a new terminal."


def _known_shell(shell: str) -> str:
    name = _running_shell() if shell == "auto" else shell
    if name not in _SHELLS:
        raise unknown_name("completion for the shell", name or "(none was found)", _SHELLS)
    return name


def _running_shell() -> str:
    """Return the name of the shell that this process was started from; empty if there is none."""
    import shellingham  # A part of typer, and slow.

    try:
        return str(shellingham.detect_shell()[0])
    except shellingham.ShellDetectionFailure:
        return Path(os.environ.get("SHELL", "")).name
