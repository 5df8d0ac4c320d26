"""A metric is a frozen dataclass: its fields are its settings, and its signature derives from them.

A metric works in two steps. `tally` counts one case; `value` turns the *sum* of tallies into the
score. Means, micro averages, bootstrap intervals and paired tests then all sum rows of tallies and
compute the value of the sum; `statistics` does this once for all metrics. The signature follows
sacrebleu (Post 2018, "A call for clarity in reporting BLEU scores").
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import (
    Any,
    ClassVar,
    Generic,
    Literal,
    Protocol,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)
from urllib.parse import quote, unquote

import numpy as np
import numpy.typing as npt

from .errors import ScoringError

FloatArray = npt.NDArray[np.float64]
Tally = tuple[float, ...]
"""The counts of one case, which may be summed over cases."""

Case = TypeVar("Case")
_REGISTRY: dict[str, type[Metric[Any]]] = {}
_SOURCES: list[MetricSource] = []


class MetricSource(Protocol):
    """Metrics that another package has, each imported when it is used first."""

    def names(self) -> Sequence[str]:
        """Their names; nothing is imported for them."""

    def load(self, name: str) -> type[Metric[Any]] | None:
        """The metric of a name, None if there is none. Raises ScoringError if it cannot be used."""


@dataclass(frozen=True, kw_only=True)
class Metric(ABC, Generic[Case]):
    """One metric with all its settings; `str(metric)` is its signature, which `parse_metric` reads.

    A subclass sets `name`, adds its settings as fields (int, float, bool, str or a `Literal` of
    strings) and increases `rev` whenever its numbers change. Raises ScoringError for a value that a
    `Literal` setting does not allow.
    """

    name: ClassVar[str] = ""
    rev: ClassVar[int] = 1
    bs: int = 1000
    seed: int = 12345

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Make the metric known by its name. Raises ScoringError for a name of this package's."""
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            return
        namesake = _REGISTRY.get(cls.name)
        if namesake is not None and _is_ours(namesake) and not _is_ours(cls):
            path = f"{cls.__module__}.{cls.__qualname__}"
            raise ScoringError(
                f"{path}: {cls.name!r} is a metric already; give it another name."
            )
        _REGISTRY[cls.name] = cls

    def __post_init__(self) -> None:
        mistakes = []
        for setting, setting_type in _settings(type(self)).items():
            if get_origin(setting_type) is not Literal:
                continue
            choices = get_args(setting_type)
            value = getattr(self, setting)
            if value not in choices:
                listed = ", ".join(map(str, choices))
                mistakes.append(f"{setting}={value!r}: choose one of {listed}")
        if self.bs < 0:
            mistakes.append(f"bs={self.bs}: resamples are 0 (no interval) or more")
        if mistakes:
            raise ScoringError.from_mistakes(f"metric {self.name}", mistakes)

    @property
    @abstractmethod
    def width(self) -> int:
        """How many numbers the tally of one case has."""

    @abstractmethod
    def tally(self, case: Case) -> Tally:
        """The counts of one case: `width` numbers that may be summed over cases."""

    @abstractmethod
    def value(self, total: FloatArray) -> FloatArray:
        """Scores from summed tallies: shape (..., width) → (...)."""

    def tallies(self, cases: Sequence[Case]) -> FloatArray:
        """The tallies of all cases, shape (cases, width); batch metrics override it."""
        rows = [self.tally(case) for case in cases]
        tallies = np.array(rows, dtype=np.float64)
        return tallies.reshape(len(cases), self.width)

    def availability(self) -> str | None:
        """None when the metric can run here, else a sentence: what is missing and how to get it."""
        return None

    def __str__(self) -> str:
        parts = [self.name]
        for setting in _settings(type(self)):
            value = str(getattr(self, setting))
            quoted = quote(value, safe="/:+,.#@")
            parts.append(f"{setting}:{quoted}")
        parts.append(f"rev:{self.rev}")
        return "|".join(parts)


Leaderboard = dict[str, Metric[Any]]
"""The name of a score → its metric."""


@dataclass(frozen=True, kw_only=True)
class RatioMetric(Metric[Case]):
    """A metric whose tally is (numerator, denominator): a share, or a mean with a one a case.

    The score is `scale` times the ratio of their sums; 0 where the denominator is 0.
    """

    scale: ClassVar[float] = 1.0

    @property
    def width(self) -> int:
        """The numerator and the denominator."""
        return 2

    def value(self, total: FloatArray) -> FloatArray:
        """The scaled ratio: shape (..., 2) → (...)."""
        return self.scale * ratio(total[..., 0], total[..., 1])


@dataclass(frozen=True)
class MetricMean:
    """The unweighted mean of metrics over the same cases: an overall score of a leaderboard."""

    parts: tuple[Metric[Any] | MetricMean, ...]

    @property
    def bs(self) -> int:
        """Bootstrap resamples of the first part; a task sets the same for all parts."""
        return self.parts[0].bs

    @property
    def seed(self) -> int:
        """Seed of the first part."""
        return self.parts[0].seed

    @property
    def width(self) -> int:
        """The sum of the parts' widths: their tallies are concatenated."""
        return sum(part.width for part in self.parts)

    def value(self, total: FloatArray) -> FloatArray:
        """Mean of the parts' values: shape (..., width) → (...)."""
        values = []
        start = 0
        for part in self.parts:
            end = start + part.width
            values.append(part.value(total[..., start:end]))
            start = end
        mean = np.mean(values, axis=0)
        return np.asarray(mean, dtype=np.float64)

    def __str__(self) -> str:
        return f"mean[{' + '.join(map(str, self.parts))}]"


PartOfF1 = Literal["precision", "recall", "f1"]


def part_of_f1(total: FloatArray, part: PartOfF1) -> FloatArray:
    """Precision, recall or their harmonic mean; 0 where a denominator is 0.

    total: the numerator and denominator of precision, then those of recall, shape (..., 4).
    """
    precision = ratio(total[..., 0], total[..., 1])
    recall = ratio(total[..., 2], total[..., 3])
    if part == "precision":
        return precision
    if part == "recall":
        return recall
    return ratio(2 * precision * recall, precision + recall)


def ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Elementwise division where x / 0 is 0, as in all the organisers' scorers."""
    return np.divide(
        numerator,
        denominator,
        out=np.zeros_like(numerator, dtype=np.float64),
        where=denominator != 0,
    )


def parse_metric(text: str) -> Metric[Any] | MetricMean:
    """The metric of a signature, of a bare name, or of a call like `name(setting=value, …)`.

    Raises ScoringError that lists every unknown setting and suggests similar names.
    """
    text = text.strip()
    if text.startswith("mean[") and text.endswith("]"):
        parts = _split_outside_brackets(text[5:-1])
        return MetricMean(tuple(map(parse_metric, parts)))
    settings = {}
    if "(" in text:
        call = re.fullmatch(r"([\w.-]+)\s*\((.*)\)", text, flags=re.DOTALL)
        if not call:
            raise ScoringError(
                f"metric {text!r} cannot be read; write name(setting=value, setting=value)."
            )
        name = call[1]
        for argument in call[2].split(","):
            setting, _, value = argument.partition("=")
            if argument.strip():
                settings[setting.strip()] = value.strip()
    else:
        name, *fields = text.split("|")
        for field in fields:
            setting, _, value = field.partition(":")
            settings[setting] = unquote(value)
    return _build(name, settings)


def known_metrics() -> list[str]:
    """The names that `parse_metric` accepts, in alphabetical order."""
    names = set(_REGISTRY)
    for source in _SOURCES:
        names.update(source.names())
    return sorted(names)


def own_metrics() -> list[str]:
    """The names of this package's own metrics that are imported already, in alphabetical order."""
    names = []
    for name, metric in _REGISTRY.items():
        if _is_ours(metric):
            names.append(name)
    return sorted(names)


def add_metric_source(source: MetricSource) -> None:
    """Let `parse_metric` and `known_metrics` know the metrics of another package too.

    A name that exists already stays with its metric.
    """
    if source not in _SOURCES:
        _SOURCES.append(source)


def _is_ours(metric: type[Metric[Any]]) -> bool:
    return metric.__module__.startswith(f"{__package__}.")


def _settings(metric: type[Metric[Any]]) -> dict[str, Any]:
    """Setting → type; a metric's own settings come first, the settings of all metrics last."""
    types = get_type_hints(metric)
    fields = [field.name for field in dataclasses.fields(metric)]
    settings: dict[str, Any] = {}
    for base in metric.__mro__:
        for name in inspect.get_annotations(base):
            if name in fields:
                settings.setdefault(name, types[name])
    return settings


def _build(name: str, settings: Mapping[str, str]) -> Metric[Any]:
    """The metric with its settings parsed. Raises ScoringError that lists every mistake."""
    metric = _REGISTRY.get(name)
    for source in _SOURCES:
        if metric is None:
            metric = source.load(name)
    if metric is None:
        names = known_metrics()
        suggestion = suggest(name, names)
        raise ScoringError(
            f"metric {name!r} is not known{suggestion}. Known: {', '.join(names)}."
        )
    types = _settings(metric)
    values = {}
    mistakes = []
    for setting, text in settings.items():
        if setting == "rev":
            if text != str(metric.rev):
                problem = f"revision {text} was computed by another release"
                mistakes.append(
                    f"rev: {problem}; this one computes revision {metric.rev}"
                )
        elif setting not in types:
            suggestion = suggest(setting, types)
            mistakes.append(
                f"{setting}: no such setting{suggestion}; it has {', '.join(types)}"
            )
        else:
            try:
                values[setting] = _parse_setting(text, types[setting])
            except ValueError as error:
                mistakes.append(f"{setting}: {error}")
    if mistakes:
        raise ScoringError.from_mistakes(f"metric {metric.name}", mistakes)
    return metric(**values)


def _parse_setting(text: str, setting_type: Any) -> Any:
    if setting_type is bool:
        if text.lower() not in ("true", "false"):
            raise ValueError(f"{text} is neither true nor false")
        return text.lower() == "true"
    if setting_type not in (int, float):
        return text
    number = setting_type(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number


def suggest(name: str, candidates: Iterable[str]) -> str:
    """The names most similar to `name` as the end of a sentence; empty if none is similar."""
    similar = difflib.get_close_matches(name, list(candidates), n=2)
    if not similar:
        return ""
    names = " or ".join(similar)
    return f" (did you mean {names}?)"


def _split_outside_brackets(text: str) -> Iterator[str]:
    """The terms of `a + mean[b + c] + d`; a plus sign inside brackets does not split."""
    depth = 0
    start = 0
    for index, character in enumerate(text):
        if character == "[":
            depth += 1
        elif character == "]":
            depth -= 1
        elif depth == 0 and text.startswith(" + ", index):
            yield text[start:index]
            start = index + len(" + ")
    yield text[start:]
