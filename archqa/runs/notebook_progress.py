"""Progress of a long call in a notebook: one line that changes. Nowhere else is anything shown."""

import sys
from types import TracebackType
from typing import Any, Self

from archqa.core import html

FEWEST_SHOWN = 2
"""A single case needs no progress."""


class NotebookProgress:
    """Shows how many of `total` are done, from entering to leaving; nothing outside of a notebook."""

    def __init__(self, what: str, total: int, done: int = 0) -> None:
        self._what = what
        self._total = total
        self._done = done
        self._failed = 0
        self._handle: Any = None

    def __enter__(self) -> Self:
        if self._total >= FEWEST_SHOWN and is_notebook():
            from IPython.display import display

            self._handle = display(_Line(self._text()), display_id=True)  # type: ignore[no-untyped-call]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._show()

    def advance(self, *, failed: bool = False) -> None:
        """Count one more."""
        self._done += 1
        self._failed += failed
        self._show()

    def _show(self) -> None:
        if self._handle is not None:
            self._handle.update(_Line(self._text()))

    def _text(self) -> str:
        failures = f", {self._failed:,} failed" if self._failed else ""
        return f"{self._done:,} of {self._total:,} {self._what}{failures}"


class _Line:
    """A line of text, escaped."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return html.text(self._text)


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook; IPython is not imported to find out."""
    ipython = sys.modules.get("IPython")
    if ipython is None:
        return False
    shell = ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")
