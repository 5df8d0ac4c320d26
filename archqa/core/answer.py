"""An answer whose every line names the note sentences it rests on."""

from functools import cached_property

from archqa.core import html
from archqa.core.value import FrozenModel

WORD_LIMIT = 75
"""Words of an answer that are scored (ArchEHR-QA 2025, submission rules)."""


class Claim(FrozenModel):
    """One line of an answer, without citation marks, and the ids of its evidence."""

    text: str
    citations: tuple[str, ...]


class CitedAnswer(FrozenModel):
    """An answer as the shared task wants it: one claim a line."""

    claims: tuple[Claim, ...]

    @cached_property
    def cited(self) -> frozenset[str]:
        """Every id that some line cites."""
        return frozenset(each for claim in self.claims for each in claim.citations)

    @cached_property
    def words(self) -> int:
        """Words as the official scorer counts them: split on white space, citations apart."""
        return sum(len(claim.text.split()) for claim in self.claims)

    @property
    def submission(self) -> str:
        """The answer in the submission's form: `text |1,2|` on each line, ids without spaces."""
        return "\n".join(_line(claim) for claim in self.claims)

    def _repr_html_(self) -> str:
        return html.ordered_list(
            f"{html.text(each.text)} {html.citations(each.citations)}" for each in self.claims
        )


def _line(claim: Claim) -> str:
    text = " ".join(claim.text.split())
    return f"{text} |{','.join(claim.citations)}|" if claim.citations else text
