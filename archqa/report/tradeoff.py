"""Citing more finds more and errs more: precision against recall as the threshold moves, and where the run stands."""

from collections.abc import Sequence
from typing import NamedTuple

from archqa.report.axis import Axis, Tick
from archqa.report.observed import SentencePrediction

SIZE = 320
_FEWEST = 30
_MOST_POINTS = 160


class IsoF1Curve(NamedTuple):
    """A line of equal F1."""

    path: str
    label: str
    x: float
    y: float


class Point(NamedTuple):
    """A place that means something, with its numbers (0 to 1) and words."""

    x: float
    y: float
    precision: float
    recall: float
    name: str
    words: str


class PrecisionRecallPlot(NamedTuple):
    """The drawing: the curve, lines of equal F1, what the run did, and what citing everything would do."""

    path: str
    iso_f1_curves: tuple[IsoF1Curve, ...]
    operating_point: Point
    everything: Point
    best: Point | None
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]


class _Rate(NamedTuple):
    precision: float
    recall: float
    threshold: float

    @property
    def f1(self) -> float:
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


def precision_recall_plot(found: Sequence[SentencePrediction]) -> PrecisionRecallPlot | None:
    """The figure, over all sentences together (micro); None where there are too few or none is essential."""
    if len(found) < _FEWEST or not any(each.essential for each in found):
        return None
    x, y = Axis(0, 1, 36, SIZE - 8), Axis(0, 1, SIZE - 30, 24)
    curve = _curve(found)
    if len(curve) < 5:
        return None
    cited = [each.essential for each in found if each.cited]
    whole = sum(each.essential for each in found)
    rate = _Rate(sum(cited) / len(cited) if cited else 0.0, sum(cited) / whole, 0)
    best = max(curve, key=lambda each: each.f1)
    return PrecisionRecallPlot(
        path=" ".join(
            f"{'L' if at else 'M'}{x(each.recall)} {y(each.precision)}"
            for at, each in enumerate(curve)
        ),
        iso_f1_curves=tuple(_level(f1 / 10, x, y) for f1 in range(2, 10, 2)),
        operating_point=_point("this run", rate, x, y),
        everything=_point("every sentence", _Rate(whole / len(found), 1.0, 0), x, y),
        best=_point(f"at {best.threshold:.2f}", best, x, y),
        x_ticks=x.ticks(),
        y_ticks=y.ticks(),
    )


def _curve(found: Sequence[SentencePrediction]) -> list[_Rate]:
    """Precision and recall when all sentences from each probability upwards are cited, highest first."""
    ordered = sorted(found, key=lambda each: -each.probability)
    whole = sum(each.essential for each in found)
    rates, right = [], 0
    for at, each in enumerate(ordered, start=1):
        right += each.essential
        last_of_its_kind = at == len(ordered) or ordered[at].probability < each.probability
        if last_of_its_kind:
            rates.append(_Rate(right / at, right / whole, each.probability))
    step = max(1, len(rates) // _MOST_POINTS)
    return rates[::step] + ([rates[-1]] if (len(rates) - 1) % step else [])


def _level(f1: float, x: Axis, y: Axis) -> IsoF1Curve:
    """Where precision and recall give this F1: p = f·r / (2r − f)."""
    least = f1 / (2 - f1)
    recalls = [least + (1 - least) * each / 40 for each in range(41)]
    places = [(x(recall), y(f1 * recall / (2 * recall - f1))) for recall in recalls]
    path = " ".join(f"{'L' if at else 'M'}{a} {b}" for at, (a, b) in enumerate(places))
    return IsoF1Curve(path, f"{f1:.1f}", x(f1) + 4, y(f1) - 4)


def _point(name: str, rate: _Rate, x: Axis, y: Axis) -> Point:
    words = f"{name}: precision {rate.precision:.0%}, recall {rate.recall:.0%}, F1 {rate.f1:.0%}"
    return Point(x(rate.recall), y(rate.precision), rate.precision, rate.recall, name, words)
