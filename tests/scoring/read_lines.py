"""Two hundred lines of answers, each beside what it cites, and what a reader found (`read_lines.json`).

The reader was a language model. 50 and 40 lines are a strong model's answers by the six stages and the panel, 50
the embedded engine's; 60 of these stand a second time with another sentence of the note as their citation.
"""

import json
from pathlib import Path
from typing import Literal, NamedTuple

from scoring.line_support import CitedLine, CitedSentence

_FILE = Path(__file__).with_name("read_lines.json")


class ReadLine(NamedTuple):
    """A line with what it cites, and whether the reader found it carried.

    `answer` is what lines of one answer share: their case, and who answered it how.
    """

    answer: str
    by: str
    line: CitedLine
    carried: Literal["yes", "partly", "no"]


def read_lines() -> list[ReadLine]:
    """All lines that were read, in the order of the file."""
    rows = json.loads(_FILE.read_text(encoding="utf-8"))
    return [
        ReadLine(
            answer=f"{row['case']}, {row['of']}",
            by=row["of"],
            line=CitedLine(row["line"], _numbered(row["cited"])),
            carried=row["carried"],
        )
        for row in rows
    ]


def _numbered(sentences: list[str]) -> tuple[CitedSentence, ...]:
    """The file does not name the ids of the sentences."""
    return tuple(
        CitedSentence(f"s{number}", text) for number, text in enumerate(sentences, 1)
    )
