"""`line_support` beside a reading of 200 lines by a language model: what scoring/README.md says of it.

50 and 40 lines are a strong model's answers by the six stages and the panel, 50 the embedded engine's; 60 of
these stand a second time with another sentence of the note as their citation.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from scoring.line_support import MIN_WORDS, CitedLine, is_carried
from scoring.rouge import rouge_tokens

LINES = json.loads(Path(__file__).with_name("read_lines.json").read_text(encoding="utf-8"))
COUNTED = [line for line in LINES if len(rouge_tokens(line["line"])) >= MIN_WORDS]


def by_rule(line: dict[str, Any]) -> bool:
    return is_carried(CitedLine(line["line"], " ".join(line["cited"])), 0.5)


def test_two_hundred_lines_were_read() -> None:
    assert len(LINES) == 200
    assert {line["carried"] for line in LINES} == {"yes", "partly", "no"}


def test_no_line_that_is_not_carried_passes_the_rule() -> None:
    assert not [line for line in COUNTED if line["carried"] != "yes" and by_rule(line)]


def test_a_third_of_the_carried_lines_fail_the_rule_none_of_them_in_the_notes_words() -> None:
    carried = [line for line in COUNTED if line["carried"] == "yes"]
    passing = [line for line in carried if by_rule(line)]
    assert len(passing) / len(carried) == pytest.approx(0.685, abs=0.001)
    assert all(by_rule(line) for line in carried if line["of"] == "engine")


def test_the_rule_agrees_with_the_reading_on_four_lines_of_five() -> None:
    agreeing = [line for line in COUNTED if by_rule(line) == (line["carried"] == "yes")]
    assert len(agreeing) / len(COUNTED) == pytest.approx(0.794, abs=0.001)
