"""What the wording of a sentence does: states a cause, a decision, a result, a dose.

The expressions stand in `data/cues.tsv`; they are general clinical English, not fitted.
"""

import re
from functools import cache
from typing import NamedTuple

from archqa.evidence.tables import rows


class Cue(NamedTuple):
    """A kind of wording: its name, how to say it, and the expression that finds it."""

    name: str
    words: str
    expression: re.Pattern[str]


@cache
def sentence_cues() -> tuple[Cue, ...]:
    """The cues looked for in a note's sentence, in the order of the file."""
    return tuple(Cue(cue, words, re.compile(expression, re.IGNORECASE)) for cue, words, expression in rows("cues.tsv"))


def strengths(cues: tuple[Cue, ...], text: str) -> list[float]:
    """For each cue how often it occurs: 0, 1 for once, 1.5 for more (a second occurrence says little more)."""
    counts = (len(cue.expression.findall(text)) for cue in cues)
    return [min(count, 1) + 0.5 * (count > 1) for count in counts]
