"""The metrics of the benchmarks, equal to the organisers' own, with signatures and intervals.

    from scoring.tasks import archehr2025
    scores = archehr2025.score(submission, references)
    print(*scores.lines(), sep="\\n")

The package imports nothing of archqa. Heavy dependencies (torch, spaCy, QuickUMLS) are imported
when a metric that needs them runs.
"""

from .citations import Citations, Links
from .errors import ScoringError
from .metric import (
    Metric,
    MetricMean,
    MetricSource,
    add_metric_source,
    known_metrics,
    own_metrics,
    parse_metric,
)
from .scores import Scores, compare
from .statistics import Interval, PairedDifference, bootstrap_interval
from .texts import TextSample

__all__ = [
    "Citations",
    "Interval",
    "Links",
    "Metric",
    "MetricMean",
    "MetricSource",
    "PairedDifference",
    "Scores",
    "ScoringError",
    "TextSample",
    "add_metric_source",
    "bootstrap_interval",
    "compare",
    "known_metrics",
    "own_metrics",
    "parse_metric",
]
