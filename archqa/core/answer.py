"""An answer in which every line cites the note sentences that support it."""

from functools import cached_property
from itertools import chain

from archqa.core import html
from archqa.core.value import FrozenModel

WORD_LIMIT = 75
"""Words of an answer that are scored (ArchEHR-QA 2025, submission rules)."""


class Claim(FrozenModel):
    """One line of an answer, without citation marks, and the ids of its evidence."""

    text: str
    citations: tuple[str, ...]


class CitedAnswer(FrozenModel):
    """An answer in the shared task's form: one claim a line."""

    claims: tuple[Claim, ...]

    @cached_property
    def cited(self) -> frozenset[str]:
        """Every id that a line cites."""
        return frozenset(chain.from_iterable(claim.citations for claim in self.claims))

    @cached_property
    def words(self) -> int:
        """The number of words as the official scorer counts them: split on white space, without
        citations.
        """
        return sum(len(claim.text.split()) for claim in self.claims)

    @property
    def submission(self) -> str:
        """The answer in the submission's form: `text |1,2|` on each line, ids without spaces."""
        return "\n".join(_line(claim) for claim in self.claims)

    def _repr_html_(self) -> str:
        lines = (
            f"{html.text(claim.text)} {html.citations(claim.citations)}" for claim in self.claims
        )
        return html.ordered_list(lines)


def _line(claim: Claim) -> str:
    text = " ".join(claim.text.split())
    if not claim.citations:
        return text
    return f"{text} |{','.join(claim.citations)}|"
