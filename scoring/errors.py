"""The one error of the scoring package: an input that the caller must correct."""

from __future__ import annotations

from collections.abc import Iterable


class ScoringError(ValueError):
    """A submission, a key or a setting that cannot be scored; the message lists every mistake."""

    @classmethod
    def from_mistakes(cls, subject: str, mistakes: Iterable[str]) -> ScoringError:
        """One error for all mistakes of an input: `subject`, then an indented line per mistake."""
        lines = [f"{subject}:", *mistakes]
        return cls("\n  ".join(lines))
