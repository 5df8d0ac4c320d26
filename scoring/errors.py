"""The one error of the scoring package, an input that the caller must correct, and its lists of ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MAX_IDS = 10
"""Nobody reads a list of ninety ids."""


class ScoringError(ValueError):
    """A submission, a key or a setting that cannot be scored; the message lists every mistake."""

    @classmethod
    def from_mistakes(cls, subject: str, mistakes: Iterable[str]) -> ScoringError:
        """One error for all mistakes of an input: `subject`, then an indented line per mistake."""
        lines = [f"{subject}:", *mistakes]
        return cls("\n  ".join(lines))


def list_ids(ids: Sequence[str]) -> str:
    """The first ten ids, and how many more there are."""
    shown = ", ".join(ids[:MAX_IDS])
    hidden = len(ids) - MAX_IDS
    return f"{shown} and {hidden} more" if hidden > 0 else shown
