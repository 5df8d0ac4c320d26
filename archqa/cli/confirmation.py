"""Asks whoever sits at the terminal whether an agent may write to a record."""

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

import typer

from archqa.cli.console import err_console


def confirm_writes() -> Callable[[str, Mapping[str, Any]], bool]:
    """A question on stderr for each write, one at a time; no terminal, or no answer, means no."""
    one_at_a_time = threading.Lock()

    def ask(url: str, payload: Mapping[str, Any]) -> bool:
        with one_at_a_time:
            err_console.print(f"An agent wants to POST this to {url}:", markup=False)
            err_console.print(json.dumps(payload, ensure_ascii=False, indent=2), markup=False)
            try:
                return typer.confirm("Allow it?", default=False, err=True)
            except typer.Abort:
                return False

    return ask
