"""Cited answers as agents write them, and the checks that they must pass."""

from typing import Self

from archqa.agents.agent import Rejected, check_ids, join_ids
from archqa.core.answer import CitedAnswer, Claim
from archqa.core.case import Case
from archqa.core.value import FrozenModel
from archqa.llm.structured import SentenceId


class Line(FrozenModel):
    """One sentence of an answer and the ids of the note sentences that support it."""

    text: str
    citations: tuple[SentenceId, ...]


class Lines(FrozenModel):
    """An answer, one sentence a line."""

    answer: tuple[Line, ...]

    @classmethod
    def from_answer(cls, answer: CitedAnswer) -> Self:
        """An answer in the form that an agent returns."""
        lines = []
        for claim in answer.claims:
            lines.append(Line(text=claim.text, citations=claim.citations))
        return cls(answer=tuple(lines))

    def as_answer(self) -> CitedAnswer:
        """The cited answer: ids without spaces, none repeated in a line, empty lines left out."""
        claims = [_claim(line) for line in self.answer if line.text.strip()]
        return CitedAnswer(claims=tuple(claims))


def check_lines(case: Case, answer: CitedAnswer) -> None:
    """The answer has text without citation marks, cites something, and every id it cites exists."""
    if not answer.claims:
        raise Rejected("Your answer is empty. Write it, one sentence a line.")
    check_ids(answer.cited, case, "Your answer cites")
    for claim in answer.claims:
        if "|" in claim.text:
            raise Rejected(
                "Leave citation marks and pipes out of the text; ids go into `citations`."
            )
    if not answer.cited:
        raise Rejected("Your answer cites nothing. Name the sentences each line rests on.")


def check_citations(answer: CitedAnswer, essential: frozenset[str]) -> None:
    """The answer cites exactly the essential sentences."""
    missing = sorted(essential - answer.cited)
    superfluous = sorted(answer.cited - essential)
    if missing:
        raise Rejected(
            f"No line cites {join_ids(missing)}, which you hold to be essential. Cite every essential one."
        )
    if superfluous:
        raise Rejected(
            f"You cite {join_ids(superfluous)}, not among the essential sentences {join_ids(sorted(essential))}."
        )


def check_word_limit(answer: CitedAnswer, limit: int) -> None:
    """The answer is within the limit."""
    if answer.words > limit:
        raise Rejected(
            f"Your answer has {answer.words} words; at most {limit} are allowed. Keep every citation."
        )


def restrict_citations(answer: CitedAnswer, allowed: frozenset[str]) -> CitedAnswer | None:
    """The answer without citations outside `allowed` and without pipes; None if it then cites
    nothing.
    """
    claims = []
    for claim in answer.claims:
        restricted_claim = _restrict(claim, allowed)
        if restricted_claim.text:
            claims.append(restricted_claim)
    restricted = CitedAnswer(claims=tuple(claims))
    if not restricted.cited:
        return None
    return restricted


def _restrict(claim: Claim, allowed: frozenset[str]) -> Claim:
    text = " ".join(claim.text.replace("|", " ").split())
    citations = tuple(citation for citation in claim.citations if citation in allowed)
    return Claim(text=text, citations=citations)


def _claim(line: Line) -> Claim:
    citations: dict[str, None] = {}
    for citation in line.citations:
        sentence_id = citation.strip()
        if sentence_id:
            citations[sentence_id] = None
    return Claim(text=" ".join(line.text.split()), citations=tuple(citations))
