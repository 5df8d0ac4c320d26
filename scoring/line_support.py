"""Does the cited sentence carry the line? A lexical rule, ours, beside the official scores.

The official factuality compares the ids of a whole answer with the key; a line that cites an
essential sentence and says something else is not noticed. This score reads each line beside what
it cites. It knows nothing of negation and synonyms: it finds lines that are about something else
and numbers that the note does not have. On 200 lines that were read (`tests/scoring/read_lines.json`)
it flags every line that is not carried, and a third of those that are: lines in a model's own words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .metric import FloatArray, Metric, ratio
from .rouge import rouge_tokens

# "Yes." and "See also." claim nothing that a sentence could carry.
MIN_WORDS = 3
# Shorter words are mostly articles, prepositions and pronouns, which any two sentences share.
MIN_LETTERS = 4


class CitedLine(NamedTuple):
    """A line of an answer, and the text of the note's sentences that it cites."""

    text: str
    cited_text: str


@dataclass(frozen=True, kw_only=True)
class LineSupport(Metric[tuple[CitedLine, ...]]):
    """The percentage of the answers' lines that the cited sentences carry.

    They carry a line when they have all its numbers and at least `share` of its distinct words of
    four letters or more. A line without citations is carried by nothing; one of fewer than three
    words is not counted.
    """

    name = "line_support"
    share: float = 0.5

    @property
    def width(self) -> int:
        """Lines that are carried, and all lines."""
        return 2

    def tally(self, case: tuple[CitedLine, ...]) -> tuple[float, ...]:
        """(lines that are carried, lines) of one answer."""
        lines = [line for line in case if len(rouge_tokens(line.text)) >= MIN_WORDS]
        carried = sum(is_carried(line, self.share) for line in lines)
        return float(carried), float(len(lines))

    def value(self, total: FloatArray) -> FloatArray:
        """Percent of all lines of all answers."""
        return 100 * ratio(total[..., 0], total[..., 1])


def is_carried(line: CitedLine, share: float) -> bool:
    """Whether the cited sentences have all numbers and a share of the words of a line."""
    cited = set(rouge_tokens(line.cited_text))
    words = set(rouge_tokens(line.text))
    numbers = {word for word in words if _has_digit(word)}
    content_words = {word for word in words - numbers if len(word) >= MIN_LETTERS}
    if not cited or not numbers <= cited:
        return False
    return len(content_words & cited) >= share * len(content_words)


def _has_digit(word: str) -> bool:
    return any(character.isdigit() for character in word)
