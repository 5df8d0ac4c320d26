"""The precision-recall plot: the curve over all thresholds, and the point of the run."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from archqa.report.axis import Axis, Tick
from archqa.report.predictions import SentencePrediction

SIZE = 320
_MIN_SENTENCES = 30
_MIN_CURVE_POINTS = 5
_MAX_CURVE_POINTS = 160
_ISO_CURVE_STEPS = 40


class IsoF1Curve(NamedTuple):
    """A line of equal F1, and the position of its label."""

    path: str
    label: str
    x: float
    y: float


class Point(NamedTuple):
    """A marked point, with its precision and recall from 0 to 1."""

    x: float
    y: float
    precision: float
    recall: float
    name: str
    tooltip: str


class PrecisionRecallPlot(NamedTuple):
    """The figure: the curve, lines of equal F1, and the marked points."""

    path: str
    iso_f1_curves: tuple[IsoF1Curve, ...]
    operating_point: Point
    cite_all_point: Point
    best_point: Point
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]


class _Rates(NamedTuple):
    precision: float
    recall: float
    threshold: float = 0.0

    @property
    def f1(self) -> float:
        total = self.precision + self.recall
        if total == 0:
            return 0.0
        return 2 * self.precision * self.recall / total


def precision_recall_plot(
    predictions: Sequence[SentencePrediction],
) -> PrecisionRecallPlot | None:
    """Return the figure over all sentences together (micro).

    None if there are too few sentences, none is essential, or the curve has too few points.
    """
    essential_count = sum(prediction.essential for prediction in predictions)
    if len(predictions) < _MIN_SENTENCES or essential_count == 0:
        return None
    curve = _curve(predictions, essential_count)
    if len(curve) < _MIN_CURVE_POINTS:
        return None
    x_axis = Axis(0, 1, 36, SIZE - 8)
    y_axis = Axis(0, 1, SIZE - 30, 24)
    best = max(curve, key=lambda rates: rates.f1)
    cite_all = _Rates(essential_count / len(predictions), 1.0)
    operating = _operating_rates(predictions, essential_count)
    return PrecisionRecallPlot(
        path=_path((x_axis(rates.recall), y_axis(rates.precision)) for rates in curve),
        iso_f1_curves=tuple(_iso_f1_curve(f1 / 10, x_axis, y_axis) for f1 in range(2, 10, 2)),
        operating_point=_point("this run", operating, x_axis, y_axis),
        cite_all_point=_point("every sentence", cite_all, x_axis, y_axis),
        best_point=_point(f"at {best.threshold:.2f}", best, x_axis, y_axis),
        x_ticks=x_axis.ticks(),
        y_ticks=y_axis.ticks(),
    )


def _operating_rates(predictions: Sequence[SentencePrediction], essential_count: int) -> _Rates:
    cited_count = 0
    correct = 0
    for prediction in predictions:
        if prediction.cited:
            cited_count += 1
            correct += prediction.essential
    precision = correct / cited_count if cited_count else 0.0
    return _Rates(precision, correct / essential_count)


def _curve(predictions: Sequence[SentencePrediction], essential_count: int) -> list[_Rates]:
    """Return the rates if all sentences from each probability upwards are cited, highest first."""
    ordered = sorted(predictions, key=lambda prediction: -prediction.probability)
    rates_by_threshold: dict[float, _Rates] = {}
    correct = 0
    for cited_count, prediction in enumerate(ordered, start=1):
        correct += prediction.essential
        # Sentences of equal probability are cited together: the last of them overwrites.
        threshold = prediction.probability
        precision = correct / cited_count
        rates_by_threshold[threshold] = _Rates(precision, correct / essential_count, threshold)
    return _thin_out(list(rates_by_threshold.values()))


def _thin_out(curve: list[_Rates]) -> list[_Rates]:
    """Keep about `_MAX_CURVE_POINTS` points of the curve, and its last point."""
    step = max(1, len(curve) // _MAX_CURVE_POINTS)
    thinned = curve[::step]
    if (len(curve) - 1) % step:
        thinned.append(curve[-1])
    return thinned


def _iso_f1_curve(f1: float, x_axis: Axis, y_axis: Axis) -> IsoF1Curve:
    """Draw the points of equal F1: precision = F1 · recall / (2 · recall − F1)."""
    min_recall = f1 / (2 - f1)
    points = []
    for step in range(_ISO_CURVE_STEPS + 1):
        recall = min_recall + (1 - min_recall) * step / _ISO_CURVE_STEPS
        precision = f1 * recall / (2 * recall - f1)
        points.append((x_axis(recall), y_axis(precision)))
    return IsoF1Curve(
        path=_path(points),
        label=f"{f1:.1f}",
        x=x_axis(f1) + 4,
        y=y_axis(f1) - 4,
    )


def _path(points: Iterable[tuple[float, float]]) -> str:
    return "M" + " L".join(f"{x} {y}" for x, y in points)


def _point(name: str, rates: _Rates, x_axis: Axis, y_axis: Axis) -> Point:
    tooltip = (
        f"{name}: precision {rates.precision:.0%}, recall {rates.recall:.0%}, F1 {rates.f1:.0%}"
    )
    return Point(
        x=x_axis(rates.recall),
        y=y_axis(rates.precision),
        precision=rates.precision,
        recall=rates.recall,
        name=name,
        tooltip=tooltip,
    )
