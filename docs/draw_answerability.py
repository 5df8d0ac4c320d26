"""Draws docs/answerability.svg: how often notes answer that are said to answer with a probability.

    python docs/draw_answerability.py set.json --notes mtsamples.json.gz

The set is in the format of `archqa evaluate ask`. Each point is a sixth of its questions, by rising
probability, with the 95 % interval of Wilson (1927).
"""

import argparse
import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from archqa.engine.answer_finder import AnswerFinder
from archqa.evaluation.asking import NoteQuestion, read_set
from archqa.notes.non_evidence import non_evidence_indices
from archqa.notes.sentences import case_from_text

PICTURE = Path(__file__).with_name("answerability.svg")
BINS = 6
PLOT, LEFT, TOP, WIDTH, HEIGHT = 300, 60, 24, 400, 390
Z = 1.96
"""The 97.5 % quantile of the normal distribution."""


class Bin(NamedTuple):
    """Some questions: their mean probability, the share that the note answers, its interval."""

    predicted: float
    observed: float
    low: float
    high: float


def main() -> None:
    """Read the command line and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("set", type=Path)
    parser.add_argument("--notes", type=Path, required=True)
    arguments = parser.parse_args()
    scored = sorted(_scored(read_set(arguments.set, arguments.notes)))
    PICTURE.write_text(draw(list(_bins(scored))), encoding="utf-8")


def _scored(questions: tuple[object, ...]) -> Iterator[tuple[float, bool]]:
    """Yield the probability of each question that its note answers, and whether it does."""
    finder = AnswerFinder.load()
    for question in questions:
        assert isinstance(question, NoteQuestion), "the set is not about notes"
        case = case_from_text(question.question, question.note)
        finding = finder.find(case, non_evidence_indices(case))
        yield float(finding.probabilities.max()), bool(question.groups)


def _bins(scored: list[tuple[float, bool]]) -> Iterator[Bin]:
    for index in range(BINS):
        start, end = index * len(scored) // BINS, (index + 1) * len(scored) // BINS
        predicted = [probability for probability, _ in scored[start:end]]
        answered = sum(answers for _, answers in scored[start:end])
        count = end - start
        low, high = _wilson_interval(answered, count)
        yield Bin(sum(predicted) / count, answered / count, low, high)


def _wilson_interval(successes: int, trials: int) -> tuple[float, float]:
    share = successes / trials
    scale = 1 + Z**2 / trials
    center = (share + Z**2 / (2 * trials)) / scale
    half = Z / scale * math.sqrt(share * (1 - share) / trials + Z**2 / (4 * trials**2))
    return center - half, center + half


def draw(bins: list[Bin]) -> str:
    """Return the picture as SVG text."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12" fill="#333333">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        _line(0, 0, 1, 1, "#999999", "4 3"),
        *_axes(),
    ]
    for point in bins:
        parts.append(
            _line(point.predicted, point.low, point.predicted, point.high, "#1f5fa8")
        )
        x, y = _place(point.predicted, point.observed)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="#1f5fa8"/>')
    return "\n".join([*parts, "</svg>", ""])


def _axes() -> Iterator[str]:
    yield _line(0, 0, 1, 0, "#333333")
    yield _line(0, 0, 0, 1, "#333333")
    for tick in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
        x, y = _place(tick, 0)
        yield f'<text x="{x:.1f}" y="{y + 18:.1f}" text-anchor="middle">{tick:.1f}</text>'
        x, y = _place(0, tick)
        yield f'<text x="{x - 8:.1f}" y="{y + 4:.1f}" text-anchor="end">{tick:.1f}</text>'
    x, y = _place(0.5, 0)
    yield f'<text x="{x:.1f}" y="{y + 40:.1f}" text-anchor="middle">predicted</text>'
    x, y = _place(0, 0.5)
    turned = f'transform="rotate(-90 {x - 42:.1f} {y:.1f})"'
    yield f'<text x="{x - 42:.1f}" y="{y:.1f}" text-anchor="middle" {turned}>notes that answer</text>'


def _line(
    x1: float, y1: float, x2: float, y2: float, color: str, dashes: str = ""
) -> str:
    (left, bottom), (right, top) = _place(x1, y1), _place(x2, y2)
    pattern = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (
        f'<line x1="{left:.1f}" y1="{bottom:.1f}" x2="{right:.1f}" y2="{top:.1f}" '
        f'stroke="{color}" stroke-width="1.5"{pattern}/>'
    )


def _place(x: float, y: float) -> tuple[float, float]:
    """Return pixels of a point whose coordinates lie between 0 and 1."""
    return LEFT + PLOT * x, TOP + PLOT * (1 - y)


if __name__ == "__main__":
    main()
