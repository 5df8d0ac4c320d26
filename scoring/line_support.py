"""Do the cited sentences support the line? A lexical rule and a model's verdict; not official.

The official factuality compares the ids of a whole answer with the key; a line that cites an
essential sentence and says something else is not noticed. These scores compare each line with what
it cites. The rule knows nothing of negation and synonyms: it finds lines that are about something
else and numbers that the note does not have. On 200 lines that were read (`tests/scoring/read_lines.json`)
it flags every line that is not carried, and a third of those that are: lines in a model's own words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from .metric import RatioMetric, Tally
from .rouge import rouge_tokens
from .scores import Scores, record

# "Yes." and "See also." claim nothing that a sentence could carry.
MIN_WORDS = 3
# Shorter words are mostly articles, prepositions and pronouns, which any two sentences share.
MIN_LETTERS = 4
_DIGIT = re.compile(r"\d")


class CitedSentence(NamedTuple):
    """A sentence of the note that a line cites."""

    id: str
    text: str


class CitedLine(NamedTuple):
    """A line of an answer, and the note's sentences that it cites."""

    text: str
    sentences: tuple[CitedSentence, ...]

    @classmethod
    def citing(
        cls,
        text: str,
        ids: Iterable[str],
        note: Mapping[str, str],
    ) -> CitedLine:
        """A line that cites these ids; those that the note does not have cite nothing."""
        sentences = []
        for sentence_id in dict.fromkeys(ids):
            if sentence_id in note:
                sentences.append(CitedSentence(sentence_id, note[sentence_id]))
        return cls(text, tuple(sentences))

    @property
    def cited_text(self) -> str:
        """The text of all cited sentences."""
        return "\n".join(sentence.text for sentence in self.sentences)

    @property
    def is_counted(self) -> bool:
        """Whether the line is long enough to claim something."""
        return len(rouge_tokens(self.text)) >= MIN_WORDS


CitedLines = tuple[CitedLine, ...]


class JudgedLine(NamedTuple):
    """A line, and whether a judge finds it supported; one without citations is not."""

    line: CitedLine
    is_supported: bool


@dataclass(frozen=True, kw_only=True)
class LineSupport(RatioMetric[CitedLines]):
    """The percentage of the answers' lines that the cited sentences carry.

    They carry a line when they have all its numbers and at least `share` of its distinct words of
    four letters or more. A line without citations is carried by nothing; one of fewer than three
    words is not counted.
    """

    name = "line_support"
    scale = 100.0
    share: float = 0.5

    def tally(self, case: CitedLines) -> Tally:
        """(lines that are carried, lines) of one answer."""
        carried = 0
        lines = 0
        for line in case:
            if line.is_counted:
                lines += 1
                carried += is_carried(line, self.share)
        return float(carried), float(lines)


@dataclass(frozen=True, kw_only=True)
class LineSupportJudged(RatioMetric[tuple[JudgedLine, ...]]):
    """The percentage of the answers' lines that a judge finds supported by what they cite.

    `judge` names the model, `prompt` the version of its prompt. The lines that count are those of
    `line_support`.
    """

    name = "line_support_judged"
    scale = 100.0
    judge: str = "none"
    prompt: str = ""
    votes: int = 1

    def tally(self, case: tuple[JudgedLine, ...]) -> Tally:
        """(lines that are supported, lines) of one answer."""
        supported = 0
        lines = 0
        for judged in case:
            if judged.line.is_counted:
                lines += 1
                supported += judged.is_supported
        return float(supported), float(lines)

    def availability(self) -> str | None:
        """Never by itself: the verdicts are a model's, which `add_judged_lines` takes."""
        return "needs a model that judges: archqa score RUN --judge-model NAME."


def add_judged_lines(
    metric: LineSupportJudged, rows: Mapping[str, tuple[JudgedLine, ...]], into: Scores
) -> None:
    """Write the score of lines that were judged (row → the lines of its answer) into `into`."""
    into.missing.pop(metric.name, None)
    tallies = metric.tallies(list(rows.values()))
    record(metric.name, metric, list(rows), tallies, into)


def is_carried(line: CitedLine, share: float) -> bool:
    """Whether the cited sentences have all numbers and a share of the words of a line."""
    cited = set(rouge_tokens(line.cited_text))
    numbers = set()
    content_words = set()
    for word in rouge_tokens(line.text):
        if _DIGIT.search(word):
            numbers.add(word)
        elif len(word) >= MIN_LETTERS:
            content_words.add(word)
    if not cited or not numbers <= cited:
        return False
    return len(content_words & cited) >= share * len(content_words)
