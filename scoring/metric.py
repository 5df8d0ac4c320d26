"""A metric is a frozen dataclass: its fields are its settings, and its signature derives from them.

A metric works in two steps. `tally` counts one case; `value` turns the *sum* of tallies into the
score. Means, micro averages, bootstrap intervals and paired tests then all sum rows of tallies and
compute the value of the sum; `resampling` does this once for all metrics. The signature follows
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
Case = TypeVar("Case")
_REGISTRY: dict[str, type[Metric[Any]]] = {}
_FURTHER: list[MetricSource] = []


class MetricSource(Protocol):
    """Metrics that another package has, each imported when it is used first."""

    def names(self) -> Sequence[str]:
        """Their names; nothing is imported for them."""

    def load(self, name: str) -> type[Metric[Any]] | None:
        """The metric of a name, None if there is none. Raises ScoringError if it cannot be used."""


class AggregateMetric(Protocol):
    """Anything that turns summed tallies into a score: a metric or a mean of metrics."""

    @property
    def bs(self) -> int:
        """Bootstrap resamples for the interval; 0 for none."""

    @property
    def seed(self) -> int:
        """Seed of the resampling."""

    def value(self, total: FloatArray) -> FloatArray:
        """Scores from summed tallies: shape (..., width) → (...)."""


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
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:
            _register(cls)

    def __post_init__(self) -> None:
        mistakes = list(self._unknown_choices())
        if self.bs < 0:
            mistakes.append(f"bs={self.bs}: resamples are 0 (no interval) or more")
        if mistakes:
            raise ScoringError.from_mistakes(f"metric {self.name}", mistakes)

    def _unknown_choices(self) -> Iterator[str]:
        for setting, setting_type in _settings(type(self)).items():
            if get_origin(setting_type) is not Literal:
                continue
            choices = get_args(setting_type)
            value = getattr(self, setting)
            if value not in choices:
                yield f"{setting}={value!r}: choose one of {', '.join(map(str, choices))}"

    @property
    @abstractmethod
    def width(self) -> int:
        """How many numbers the tally of one case has."""

    @abstractmethod
    def tally(self, case: Case) -> tuple[float, ...]:
        """The counts of one case: `width` numbers that may be summed over cases."""

    @abstractmethod
    def value(self, total: FloatArray) -> FloatArray:
        """Scores from summed tallies: shape (..., width) → (...)."""

    def tallies(self, cases: Sequence[Case]) -> FloatArray:
        """The tallies of all cases, shape (cases, width); batch metrics override it."""
        rows = [self.tally(case) for case in cases]
        return np.array(rows, dtype=np.float64).reshape(len(cases), self.width)

    def availability(self) -> str | None:
        """None when the metric can run here, else a sentence: what is missing and how to get it."""
        return None

    def __str__(self) -> str:
        parts = [self.name]
        for setting in _settings(type(self)):
            value = getattr(self, setting)
            parts.append(f"{setting}:{_quote(value)}")
        parts.append(f"rev:{self.rev}")
        return "|".join(parts)


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
        return np.asarray(np.mean(values, axis=0), dtype=np.float64)

    def __str__(self) -> str:
        return f"mean[{' + '.join(map(str, self.parts))}]"


PartOfF1 = Literal["precision", "recall", "f1"]


def part_of_f1(total: FloatArray, part: PartOfF1) -> FloatArray:
    """Precision, recall or their harmonic mean, from summed (hits, of) of precision and of recall;
    0 where a denominator is 0.
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
    name, settings = _parse_call(text) if "(" in text else _parse_signature(text)
    return _build(_find(name), settings)


def known_metrics() -> list[str]:
    """The names that `parse_metric` accepts, in alphabetical order."""
    names = set(_REGISTRY)
    for source in _FURTHER:
        names.update(source.names())
    return sorted(names)


def own_metrics() -> list[str]:
    """The names of this package's own metrics that are imported already, in alphabetical order."""
    return sorted(name for name, metric in _REGISTRY.items() if _is_ours(metric))


def add_metric_source(source: MetricSource) -> None:
    """Let `parse_metric` and `known_metrics` know the metrics of another package too.

    A name that is taken stays with the metric that has it.
    """
    if source not in _FURTHER:
        _FURTHER.append(source)


def _register(metric: type[Metric[Any]]) -> None:
    """Make a metric known by its name. Raises ScoringError for a name of this package's own."""
    taken = _REGISTRY.get(metric.name)
    if taken is not None and _is_ours(taken) and not _is_ours(metric):
        path = f"{metric.__module__}.{metric.__qualname__}"
        raise ScoringError(f"{path}: {metric.name!r} is a metric already; give it another name.")
    _REGISTRY[metric.name] = metric


def _is_ours(metric: type[Metric[Any]]) -> bool:
    return metric.__module__.startswith(f"{__package__}.")


def _find(name: str) -> type[Metric[Any]]:
    if name in _REGISTRY:
        return _REGISTRY[name]
    for source in _FURTHER:
        metric = source.load(name)
        if metric is not None:
            return metric
    suggestion = suggest(name, known_metrics())
    names = ", ".join(known_metrics())
    raise ScoringError(f"metric {name!r} is not known{suggestion}. Known: {names}.")


def _settings(metric: type[Metric[Any]]) -> dict[str, Any]:
    """Setting → type; a metric's own settings come first, the settings of all metrics last."""
    types = get_type_hints(metric)
    fields = {field.name for field in dataclasses.fields(metric)}
    settings: dict[str, Any] = {}
    for base in metric.__mro__:
        for name in inspect.get_annotations(base):
            if name in fields:
                settings.setdefault(name, types[name])
    return settings


def _quote(value: Any) -> str:
    return quote(str(value), safe="/:+,.#@")


def _parse_signature(text: str) -> tuple[str, dict[str, str]]:
    name, *fields = text.split("|")
    settings = {}
    for field in fields:
        setting, _, value = field.partition(":")
        settings[setting] = unquote(value)
    return name, settings


def _parse_call(text: str) -> tuple[str, dict[str, str]]:
    match = re.fullmatch(r"\s*([\w.-]+)\s*\((.*)\)\s*", text, flags=re.DOTALL)
    if not match:
        raise ScoringError(
            f"metric {text!r} cannot be read; write name(setting=value, setting=value)."
        )
    settings = {}
    for argument in match[2].split(","):
        setting, _, value = argument.partition("=")
        if argument.strip():
            settings[setting.strip()] = value.strip()
    return match[1], settings


def _build(metric: type[Metric[Any]], settings: Mapping[str, str]) -> Metric[Any]:
    """The metric with its settings parsed. Raises ScoringError that lists every mistake."""
    types = _settings(metric)
    values = {}
    mistakes = []
    for setting, text in settings.items():
        try:
            if setting == "rev":
                _check_revision(metric, text)
            else:
                values[setting] = _parse_setting(text, types[setting])
        except KeyError:
            suggestion = suggest(setting, types)
            mistakes.append(f"{setting}: no such setting{suggestion}; it has {', '.join(types)}")
        except ValueError as error:
            mistakes.append(f"{setting}: {error}")
    if mistakes:
        raise ScoringError.from_mistakes(f"metric {metric.name}", mistakes)
    return metric(**values)


def _check_revision(metric: type[Metric[Any]], text: str) -> None:
    if text == str(metric.rev):
        return
    problem = f"revision {text} was computed by another release"
    raise ValueError(f"{problem}; this one computes revision {metric.rev}")


def _parse_setting(text: str, setting_type: Any) -> Any:
    if setting_type is bool:
        return _parse_bool(text)
    if setting_type not in (int, float):
        return text
    number = setting_type(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number


def _parse_bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text} is neither true nor false")
    return text.lower() == "true"


def suggest(name: str, candidates: Iterable[str]) -> str:
    """The names most similar to `name` as the end of a sentence; empty if none is similar."""
    similar = difflib.get_close_matches(name, list(candidates), n=2)
    if not similar:
        return ""
    return f" (did you mean {' or '.join(similar)}?)"


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
