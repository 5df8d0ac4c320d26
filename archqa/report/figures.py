"""The figures of a run: calibration, precision and recall, agreement of the agents; and their axis."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from archqa.core.case import Case
from archqa.core.judgement import Relevance, cohens_kappa, mean_probabilities
from archqa.core.usage import Usage
from archqa.report.note_view import judgements_by_agent
from archqa.report.report_data import ReportData
from archqa.runs.stage_usage import StageUsage, stage_usage

SIZE = 320
"""Width and height of a figure."""

KEY = "the key"

_ROUNDING_TOLERANCE = 1e-9
_MIN_SENTENCES = 30
"""With fewer sentences, a figure would show nothing but noise."""
_BIN_COUNT = 10
_Z = 1.96
"""The normal quantile of a 95 % interval."""
_MIN_CURVE_POINTS = 5
_MAX_CURVE_POINTS = 160
_ISO_CURVE_STEPS = 40
_MAX_AGENTS = 10
"""Agents of the table of agreement: those that judged the most sentences."""


class Tick(NamedTuple):
    """A labelled position on an axis, in units of the drawing."""

    position: float
    label: str


class Axis(NamedTuple):
    """A linear axis that maps values from `low` to `high` to positions from `start` to `end`.

    `start` may be larger than `end`, as on a vertical axis.
    """

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the position of a value."""
        span = self.high - self.low
        fraction = 0.5 if span == 0 else (value - self.low) / span
        position = self.start + fraction * (self.end - self.start)
        return round(position, 2)

    def ticks(self, max_ticks: int = 5) -> tuple[Tick, ...]:
        """Return at most `max_ticks` round values within the axis."""
        step = nice_step(self.high - self.low, max_ticks)
        lowest = math.ceil(self.low / step - _ROUNDING_TOLERANCE)
        highest = math.floor(self.high / step + _ROUNDING_TOLERANCE)
        ticks = []
        for multiple in range(lowest, highest + 1):
            value = multiple * step
            ticks.append(Tick(self(value), f"{value:g}"))
        return tuple(ticks)


def nice_step(span: float, max_ticks: int) -> float:
    """Return the smallest 1, 2, 2.5 or 5 times a power of ten that needs at most `max_ticks`."""
    if span <= 0:
        return 1.0
    min_step = span / max(max_ticks - 1, 1)
    power = 10.0 ** math.floor(math.log10(min_step))
    for factor in (1, 2, 2.5, 5):
        if power * factor >= min_step * (1 - _ROUNDING_TOLERANCE):
            return power * factor
    return power * 10


_HORIZONTAL = Axis(0, 1, 36, SIZE - 8)
_VERTICAL = Axis(0, 1, SIZE - 30, 24)


class SentencePrediction(NamedTuple):
    """One sentence: the agents' mean probability, whether it is cited, and whether essential."""

    probability: float
    cited: bool
    essential: bool


class CalibrationBin(NamedTuple):
    """One bin: its position, its 95 % interval (Wilson), its radius, and its tooltip."""

    x: float
    y: float
    low: float
    high: float
    radius: float
    tooltip: str


class CalibrationPlot(NamedTuple):
    """The agents' probabilities against the share of essential sentences.

    `brier` is the mean squared error; both errors are from 0 to 1.
    """

    bins: tuple[CalibrationBin, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    brier: float
    expected_calibration_error: float
    sentences: int


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
    """The curve over all thresholds, lines of equal F1, and the marked points."""

    path: str
    iso_f1_curves: tuple[IsoF1Curve, ...]
    operating_point: Point
    cite_all_point: Point
    best_point: Point
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]


class AgreementTable(NamedTuple):
    """Cohen's kappa of all pairs of judges: `cells[i][j]` is that of `names[i]` and `names[j]`.

    It is 1 for full agreement, 0 for chance, and None where it is undefined: the judges have no
    sentence in common, or gave every sentence the same label.
    """

    names: tuple[str, ...]
    cells: tuple[tuple[float | None, ...], ...]


class RunFigures(NamedTuple):
    """What the figures of a run are drawn from; it reads every trace of the run."""

    statuses: dict[str, int]
    usage: Usage
    stages: tuple[StageUsage, ...]
    calibration: CalibrationPlot | None
    precision_recall: PrecisionRecallPlot | None
    agreement: AgreementTable | None


def run_figures(data: ReportData) -> RunFigures:
    """Return what the figures of one run are drawn from."""
    predictions = sentence_predictions(data)
    statuses = Counter(summary.status for summary in data.summaries.values())
    return RunFigures(
        statuses=dict(statuses),
        usage=data.run.usage,
        stages=tuple(stage_usage(data.run)),
        calibration=calibration_plot(predictions),
        precision_recall=precision_recall_plot(predictions),
        agreement=agreement_table(data),
    )


def sentence_predictions(data: ReportData) -> tuple[SentencePrediction, ...]:
    """Return the sentences of every answered case that have a gold label and a judgement."""
    if not data.keys:
        return ()
    predictions = []
    for case in data.run.cases:
        if not isinstance(case, Case) or case.id not in data.keys:
            continue
        record = data.run.get_record(case.id)
        if record is None or record.answer is None:
            continue
        probabilities = mean_probabilities(record.judgements)
        cited_ids = record.answer.cited or frozenset(record.evidence)
        for sentence_id, label in data.keys[case.id].labels.items():
            if sentence_id in probabilities:
                prediction = SentencePrediction(
                    probability=probabilities[sentence_id],
                    cited=sentence_id in cited_ids,
                    essential=label is Relevance.ESSENTIAL,
                )
                predictions.append(prediction)
    return tuple(predictions)


def calibration_plot(
    predictions: Sequence[SentencePrediction],
) -> CalibrationPlot | None:
    """Return the figure, with bins of equally many sentences.

    None if there are too few sentences or too few different probabilities.
    """
    count = len(predictions)
    distinct = {prediction.probability for prediction in predictions}
    if count < _MIN_SENTENCES or len(distinct) < _BIN_COUNT:
        return None
    ordered = sorted(predictions)
    cuts = [round(count * cut / _BIN_COUNT) for cut in range(_BIN_COUNT + 1)]
    bins = []
    calibration_error = 0.0
    for start, end in pairwise(cuts):
        members = ordered[start:end]
        if not members:
            continue
        probability = sum(member.probability for member in members) / len(members)
        share = sum(member.essential for member in members) / len(members)
        fraction = len(members) / count
        calibration_error += fraction * abs(probability - share)
        low, high = wilson_interval(share, len(members))
        tooltip = (
            f"predicted {probability:.0%}, essential {share:.0%} [{low:.0%}, {high:.0%}], "
            f"{len(members)} sentences"
        )
        bins.append(
            CalibrationBin(
                x=_HORIZONTAL(probability),
                y=_VERTICAL(share),
                low=_VERTICAL(low),
                high=_VERTICAL(high),
                radius=round(2.5 + 8 * math.sqrt(fraction), 1),
                tooltip=tooltip,
            )
        )
    errors = [
        prediction.probability - prediction.essential for prediction in predictions
    ]
    return CalibrationPlot(
        bins=tuple(bins),
        x_ticks=_HORIZONTAL.ticks(),
        y_ticks=_VERTICAL.ticks(),
        brier=sum(error**2 for error in errors) / count,
        expected_calibration_error=calibration_error,
        sentences=count,
    )


def wilson_interval(share: float, count: int) -> tuple[float, float]:
    """Return the 95 % interval of a share of `count` (Wilson 1927)."""
    center = share + _Z**2 / (2 * count)
    variance = share * (1 - share) / count
    half_width = _Z * math.sqrt(variance + _Z**2 / (4 * count**2))
    scale = 1 + _Z**2 / count
    low = (center - half_width) / scale
    high = (center + half_width) / scale
    return max(0.0, low), min(1.0, high)


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
    cited_count = correct_count = 0
    for prediction in predictions:
        if prediction.cited:
            cited_count += 1
            correct_count += prediction.essential
    precision = correct_count / cited_count if cited_count else 0.0
    operating = _Rates(precision, correct_count / essential_count)
    cite_all = _Rates(essential_count / len(predictions), 1.0)
    best = max(curve, key=lambda rates: rates.f1)
    return PrecisionRecallPlot(
        path=_path((rates.recall, rates.precision) for rates in curve),
        iso_f1_curves=tuple(map(_iso_f1_curve, (0.2, 0.4, 0.6, 0.8))),
        operating_point=_point("this run", operating),
        cite_all_point=_point("every sentence", cite_all),
        best_point=_point(f"at {best.threshold:.2f}", best),
        x_ticks=_HORIZONTAL.ticks(),
        y_ticks=_VERTICAL.ticks(),
    )


def _curve(
    predictions: Sequence[SentencePrediction], essential_count: int
) -> list[_Rates]:
    """Return the rates if all sentences from each probability upwards are cited, highest first.

    Of a long curve, about `_MAX_CURVE_POINTS` points remain, and its last one.
    """
    ordered = sorted(predictions, key=lambda prediction: -prediction.probability)
    rates_by_threshold: dict[float, _Rates] = {}
    correct_count = 0
    for cited_count, prediction in enumerate(ordered, start=1):
        correct_count += prediction.essential
        # Sentences of equal probability are cited together: the last of them overwrites.
        threshold = prediction.probability
        precision = correct_count / cited_count
        recall = correct_count / essential_count
        rates_by_threshold[threshold] = _Rates(precision, recall, threshold)
    curve = list(rates_by_threshold.values())
    step = max(1, len(curve) // _MAX_CURVE_POINTS)
    thinned = curve[::step]
    if (len(curve) - 1) % step:
        thinned.append(curve[-1])
    return thinned


def _iso_f1_curve(f1: float) -> IsoF1Curve:
    """Draw the points of equal F1: precision = F1 · recall / (2 · recall − F1)."""
    min_recall = f1 / (2 - f1)
    points = []
    for step in range(_ISO_CURVE_STEPS + 1):
        recall = min_recall + (1 - min_recall) * step / _ISO_CURVE_STEPS
        points.append((recall, f1 * recall / (2 * recall - f1)))
    return IsoF1Curve(
        path=_path(points),
        label=f"{f1:.1f}",
        x=_HORIZONTAL(f1) + 4,
        y=_VERTICAL(f1) - 4,
    )


def _path(points: Iterable[tuple[float, float]]) -> str:
    """Draw a line through points of recall and precision."""
    return "M" + " L".join(f"{_HORIZONTAL(x)} {_VERTICAL(y)}" for x, y in points)


def _point(name: str, rates: _Rates) -> Point:
    tooltip = f"{name}: precision {rates.precision:.0%}, recall {rates.recall:.0%}, F1 {rates.f1:.0%}"
    return Point(
        x=_HORIZONTAL(rates.recall),
        y=_VERTICAL(rates.precision),
        precision=rates.precision,
        recall=rates.recall,
        name=name,
        tooltip=tooltip,
    )


def agreement_table(data: ReportData) -> AgreementTable | None:
    """Return the agreement of a run's agents on which sentences are essential, the key last.

    None with fewer than two agents. The embedded engine is one agent in all its roles: it agrees
    with itself.
    """
    labels_by_judge: dict[str, dict[tuple[str, str], bool]] = {}
    for record in data.run.iter_records():
        by_agent = judgements_by_agent(record, data.run.manifest.backends)
        for agent, judgements in by_agent.items():
            labels = labels_by_judge.setdefault(agent, {})
            for sentence_id, judgement in judgements.items():
                labels[record.id, sentence_id] = judgement.label is Relevance.ESSENTIAL
    if len(labels_by_judge) < 2:
        return None
    names = sorted(labels_by_judge)
    names.sort(key=lambda name: len(labels_by_judge[name]), reverse=True)
    names = names[:_MAX_AGENTS]
    key_labels = {}
    for case_id, key in data.keys.items():
        for sentence_id, label in key.labels.items():
            key_labels[case_id, sentence_id] = label is Relevance.ESSENTIAL
    if key_labels:
        labels_by_judge[KEY] = key_labels
        names.append(KEY)
    cells = []
    for row_name in names:
        row_labels = labels_by_judge[row_name]
        row = []
        for column_name in names:
            column_labels = labels_by_judge[column_name]
            common = row_labels.keys() & column_labels.keys()
            pairs = [
                (row_labels[sentence], column_labels[sentence]) for sentence in common
            ]
            row.append(cohens_kappa(pairs) if pairs else None)
        cells.append(tuple(row))
    return AgreementTable(tuple(names), tuple(cells))
