"""What can go wrong while scoring: one class, since one person must act: whoever gave the files."""

from __future__ import annotations

from collections.abc import Iterable


class ScoringError(ValueError):
    """A submission, a key or a setting that cannot be scored; its text names every mistake and the way out."""

    @classmethod
    def from_mistakes(cls, subject: str, mistakes: Iterable[str]) -> ScoringError:
        """One error for all mistakes of one input: `subject`, then one indented line a mistake."""
        return cls("\n  ".join([f"{subject}:", *mistakes]))
