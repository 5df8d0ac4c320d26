"""An answer in which every line cites the note sentences that support it."""

from functools import cached_property

from archqa.core import html
from archqa.core.value import FrozenModel

WORD_LIMIT = 75
"""Words of an answer that are scored (ArchEHR-QA 2025, submission rules)."""
SEE_ALSO = "See also."
"""The text of a line that states nothing and only names further evidence."""


class Claim(FrozenModel):
    """One line of an answer, without citation marks, and the ids of its evidence."""

    text: str
    citations: tuple[str, ...]

    @property
    def is_pointer(self) -> bool:
        """Whether the line states nothing: it names evidence that no line had room for."""
        return self.text == SEE_ALSO


class CitedAnswer(FrozenModel):
    """An answer in the shared task's form: one claim a line."""

    claims: tuple[Claim, ...]

    @cached_property
    def cited(self) -> frozenset[str]:
        """Every id that a line cites."""
        cited: set[str] = set()
        for claim in self.claims:
            cited.update(claim.citations)
        return frozenset(cited)

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
        lines = []
        for claim in self.claims:
            text = html.text(claim.text)
            lines.append(f"{text} {html.citations(claim.citations)}")
        return html.ordered_list(lines)


def _line(claim: Claim) -> str:
    text = " ".join(claim.text.split())
    if not claim.citations:
        return text
    return f"{text} |{','.join(claim.citations)}|"
