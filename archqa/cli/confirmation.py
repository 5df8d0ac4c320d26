"""Asks the user at the terminal whether an agent may write to a record."""

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

import typer

from archqa.cli.console import err_console


def confirm_writes() -> Callable[[str, Mapping[str, Any]], bool]:
    """Return a function that asks on stderr about one write at a time.

    Without a terminal, or without an answer, the write is refused.
    """
    one_question_at_a_time = threading.Lock()

    def ask(url: str, payload: Mapping[str, Any]) -> bool:
        with one_question_at_a_time:
            err_console.print(f"An agent wants to POST this to {url}:")
            err_console.print(json.dumps(payload, ensure_ascii=False, indent=2))
            try:
                return typer.confirm("Allow it?", default=False, err=True)
            except typer.Abort:
                return False

    return ask
