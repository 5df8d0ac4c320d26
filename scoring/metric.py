"""A metric is a frozen value: its settings are its fields, its signature derives from them.

A metric works in two steps. `tally` counts one case; `value` turns the *sum* of tallies into the score. Means, micro
averages, bootstrap intervals and paired tests are then all "sum some rows of tallies, ask for the value", written
once in `resampling`. The idea of a signature is sacrebleu's (Post 2018, "A call for clarity in reporting BLEU
scores").
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
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


class AggregateMetric(Protocol):
    """Whatever turns summed tallies into a score: a metric or a mean of metrics."""

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
    """One ruler with all its settings; `str(metric)` is its signature, and `parse_metric` reads that back.

    A subclass sets `name`, adds its settings as fields (int, float, bool, str or a `Literal` of words) and raises
    `rev` whenever its numbers change. Raises ScoringError for a word that a `Literal` setting does not know.
    """

    name: ClassVar[str] = ""
    rev: ClassVar[int] = 1
    bs: int = 1000
    seed: int = 12345

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:
            _REGISTRY[cls.name] = cls

    def __post_init__(self) -> None:
        wrong = [
            f"{setting}={getattr(self, setting)!r}: choose one of {', '.join(map(str, get_args(kind)))}"
            for setting, kind in _settings(type(self)).items()
            if get_origin(kind) is Literal and getattr(self, setting) not in get_args(kind)
        ]
        if self.bs < 0:
            wrong.append(f"bs={self.bs}: resamples are 0 (no interval) or more")
        if wrong:
            raise ScoringError.from_mistakes(f"metric {self.name}", wrong)

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
        """The tallies of many cases, shape (cases, width); metrics that work in batches override it."""
        return np.array([self.tally(case) for case in cases], dtype=np.float64).reshape(
            len(cases), self.width
        )

    def availability(self) -> str | None:
        """None when the metric can run here, else one sentence: what is missing and how to get it."""
        return None

    def __str__(self) -> str:
        settings = [
            f"{setting}:{_write(getattr(self, setting))}" for setting in _settings(type(self))
        ]
        return "|".join([self.name, *settings, f"rev:{self.rev}"])


@dataclass(frozen=True)
class MetricMean:
    """The plain mean of several metrics over the same cases, as leaderboards define their overall scores."""

    parts: tuple[Metric[Any] | MetricMean, ...]

    @property
    def bs(self) -> int:
        """Bootstrap resamples of the first part; a task gives all parts the same."""
        return self.parts[0].bs

    @property
    def seed(self) -> int:
        """Seed of the first part."""
        return self.parts[0].seed

    @property
    def width(self) -> int:
        """The tallies of the parts stand side by side."""
        return sum(part.width for part in self.parts)

    def value(self, total: FloatArray) -> FloatArray:
        """Mean of the parts' values: shape (..., width) → (...)."""
        edges = np.cumsum([part.width for part in self.parts])[:-1]
        pieces = np.split(total, edges, axis=-1)
        values = [part.value(piece) for part, piece in zip(self.parts, pieces, strict=True)]
        return np.asarray(np.mean(values, axis=0), dtype=np.float64)

    def __str__(self) -> str:
        return f"mean[{' + '.join(map(str, self.parts))}]"


def ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Elementwise division in which nothing over nothing is 0, as in all the organisers' scorers."""
    return np.divide(
        numerator,
        denominator,
        out=np.zeros_like(numerator, dtype=np.float64),
        where=denominator != 0,
    )


def parse_metric(text: str) -> Metric[Any] | MetricMean:
    """The metric that a text names: a signature, a bare name, or `name(setting=value, …)` as typed by hand.

    Raises ScoringError that lists every unknown setting and suggests near names.
    """
    text = text.strip()
    if text.startswith("mean[") and text.endswith("]"):
        return MetricMean(tuple(parse_metric(part) for part in _split_outside_brackets(text[5:-1])))
    name, settings = _by_hand(text) if "(" in text else _from_signature(text)
    if name not in _REGISTRY:
        raise ScoringError(
            f"metric {name!r} is not known{_near(name, _REGISTRY)}. Known: {', '.join(known_metrics())}."
        )
    return _build(_REGISTRY[name], settings)


def known_metrics() -> list[str]:
    """The names that `parse_metric` knows, in alphabetical order."""
    return sorted(_REGISTRY)


def _settings(metric: type[Metric[Any]]) -> dict[str, Any]:
    """Setting → type; a metric's own settings come first, those of every metric last."""
    hints, fields = get_type_hints(metric), {field.name for field in dataclasses.fields(metric)}
    written = [
        name for base in metric.__mro__ for name in inspect.get_annotations(base) if name in fields
    ]
    return {name: hints[name] for name in dict.fromkeys(written)}


def _write(value: Any) -> str:
    return quote(str(value), safe="/:+,.#@")


def _from_signature(text: str) -> tuple[str, dict[str, str]]:
    name, *fields = text.split("|")
    pairs = [field.partition(":") for field in fields]
    return name, {setting: unquote(value) for setting, _, value in pairs}


def _by_hand(text: str) -> tuple[str, dict[str, str]]:
    match = re.fullmatch(r"\s*([\w.-]+)\s*\((.*)\)\s*", text, flags=re.DOTALL)
    if not match:
        raise ScoringError(
            f"metric {text!r} cannot be read; write name(setting=value, setting=value)."
        )
    pairs = [pair.partition("=") for pair in match[2].split(",") if pair.strip()]
    return match[1], {setting.strip(): value.strip() for setting, _, value in pairs}


def _build(metric: type[Metric[Any]], written: Mapping[str, str]) -> Metric[Any]:
    kinds, values, wrong = _settings(metric), {}, []
    for setting, text in written.items():
        try:
            if setting == "rev":
                _check_revision(metric, text)
            else:
                values[setting] = _read(text, kinds[setting])
        except KeyError:
            wrong.append(
                f"{setting}: no such setting{_near(setting, kinds)}; it has {', '.join(kinds)}"
            )
        except ValueError as error:
            wrong.append(f"{setting}: {error}")
    if wrong:
        raise ScoringError.from_mistakes(f"metric {metric.name}", wrong)
    return metric(**values)


def _check_revision(metric: type[Metric[Any]], text: str) -> None:
    if text != str(metric.rev):
        raise ValueError(
            f"revision {text} was computed by another release; this one computes revision {metric.rev}"
        )


def _read(text: str, kind: Any) -> Any:
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise ValueError(f"{text} is neither true nor false")
        return text.lower() == "true"
    number = {int: int, float: float}.get(kind)
    if number is None:
        return text
    read = number(text)
    if not math.isfinite(read):
        raise ValueError(f"{text} is not a finite number")
    return read


def _near(name: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, known, n=2)
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def _split_outside_brackets(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for at, letter in enumerate(text):
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if depth == 0 and text.startswith(" + ", at):
            yield text[start:at]
            start = at + 3
    yield text[start:]
