"""What agents that write cited answers share: the lines, and the checks every line must pass."""

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
        """A finished answer in the form an agent returns."""
        return cls(
            answer=tuple(
                Line(text=claim.text, citations=claim.citations) for claim in answer.claims
            )
        )

    def as_answer(self) -> CitedAnswer:
        """The same, as a value of the field: ids without spaces, each once a line, empty lines left out."""
        return CitedAnswer(claims=tuple(_claim(line) for line in self.answer if line.text.strip()))


def check_lines(case: Case, answer: CitedAnswer) -> None:
    """Text there is, ids exist, something is cited, and citation marks stay out of the text."""
    if not answer.claims:
        raise Rejected("Your answer is empty. Write it, one sentence a line.")
    check_ids(answer.cited, case, "Your answer cites")
    if any("|" in claim.text for claim in answer.claims):
        raise Rejected("Leave citation marks and pipes out of the text; ids go into `citations`.")
    if not answer.cited:
        raise Rejected("Your answer cites nothing. Name the sentences each line rests on.")


def check_citations(answer: CitedAnswer, essential: frozenset[str]) -> None:
    """The answer cites the essential sentences, all and only those."""
    missing, beyond = sorted(essential - answer.cited), sorted(answer.cited - essential)
    if missing:
        raise Rejected(
            f"No line cites {join_ids(missing)}, which you hold to be essential. Cite every essential one."
        )
    if beyond:
        raise Rejected(
            f"You cite {join_ids(beyond)}, not among the essential sentences {join_ids(sorted(essential))}."
        )


def check_word_limit(answer: CitedAnswer, limit: int) -> None:
    """The answer keeps within the limit."""
    if answer.words > limit:
        raise Rejected(
            f"Your answer has {answer.words} words; at most {limit} are allowed. Keep every citation."
        )


def restrict_citations(answer: CitedAnswer, allowed: frozenset[str]) -> CitedAnswer | None:
    """The answer without citations outside `allowed` and without pipes; None if nothing cited is left."""
    claims = tuple(
        Claim(
            text=" ".join(claim.text.replace("|", " ").split()),
            citations=tuple(each for each in claim.citations if each in allowed),
        )
        for claim in answer.claims
    )
    kept = CitedAnswer(claims=tuple(claim for claim in claims if claim.text))
    return kept if kept.cited else None


def _claim(line: Line) -> Claim:
    ids = tuple(dict.fromkeys(each.strip() for each in line.citations if each.strip()))
    return Claim(text=" ".join(line.text.split()), citations=ids)
