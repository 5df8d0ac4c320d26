"""The scores of one run or submission, with what they were computed from: a mapping by name."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from archqa import plug_ins
from archqa.core.html import SCORE_COLUMNS, score_rows, scores_html
from archqa.core.near_misses import advice_on_name
from archqa.core.usage import Usage
from archqa.core.value import JsonObject
from archqa.errors import PlugInError, quoted
from archqa.tasks.key_provenance import KeyProvenance
from scoring import Metric, Scores, ScoringError, add_metric_source, own_metrics

if TYPE_CHECKING:
    import pandas


class PlugInMetrics:
    """The metrics of plug-ins, as `scoring` looks for those that it does not have."""

    def names(self) -> Sequence[str]:
        """Their names."""
        return [
            plug_in.name for plug_in in plug_ins.installed("metrics", own_metrics())
        ]

    def load(self, name: str) -> type[Metric[Any]] | None:
        """The metric of a name; None if no plug-in has it.

        Raises `ScoringError` for a plug-in that cannot be used.
        """
        try:
            plug_in = plug_ins.find("metrics", name)
            if plug_in is None:
                return None
            metric = plug_in.load()
            is_metric = isinstance(metric, type) and issubclass(metric, Metric)
            if not is_metric or metric.name != plug_in.name:
                raise plug_in.problem("is no scoring.Metric of that name")
            metric_class: type[Metric[Any]] = metric
            return metric_class
        except PlugInError as error:
            raise ScoringError(str(error)) from None


def metric_origins(signatures: Iterable[str]) -> dict[str, str]:
    """`metrics.words_per_line` → `archqa-example-plugin 0.1.0`, for signatures of plug-ins' metrics."""
    origins = {}
    for signature in signatures:
        name = signature.partition("|")[0]
        plug_in = plug_ins.find("metrics", name, own_metrics())
        if plug_in is not None:
            origins[f"metrics.{name}"] = plug_in.origin
    return origins


add_metric_source(PlugInMetrics())


Baselines = dict[str, dict[str, float]]
"""Name of a baseline → its scores."""


@dataclass(frozen=True)
class ScoreReport(Mapping[str, float]):
    """Scores by name (`report["strict_micro_f1"]`), with their baselines and the SHA-256 of every file
    they were computed from.

    `disagreements` are the replies on which a judge's votes differ, `unsupported_lines` the lines
    that it does not find supported, and the paths are where they were written; `judge_usage` is
    what the judge cost. `faults` maps question and task ids to
    what went wrong. `run_files` are further JSON files for the run's folder, by name. `cases_in_key`
    is how many cases a whole run would be scored over. `key` says what they were scored against.
    """

    scores: Scores
    baselines: Baselines
    fingerprints: dict[str, str]
    disagreements: tuple[JsonObject, ...] = ()
    disagreements_path: Path | None = None
    unsupported_lines: tuple[JsonObject, ...] = ()
    unsupported_lines_path: Path | None = None
    judge_usage: Usage | None = None
    faults: dict[str, JsonObject] | None = None
    run_files: JsonObject = field(default_factory=dict)
    cases_in_key: int = 0
    key: KeyProvenance | None = None

    def __getitem__(self, name: str) -> float:
        """The score of that name. Raises `KeyError` that says what it may be, or why it is missing."""
        scores = self.scores
        if name in scores.scores:
            return scores.scores[name]
        if name in scores.missing:
            raise KeyError(f"{name} is missing: {scores.missing[name]}")
        if name in scores.tables:
            raise KeyError(f"{name} is a break-down: see .scores.tables[{name!r}]")
        advice = advice_on_name(name, scores.scores)
        raise KeyError(f"There is no score {quoted(name)}. {advice}")

    def __iter__(self) -> Iterator[str]:
        return iter(self.scores.scores)

    def __len__(self) -> int:
        return len(self.scores.scores)

    def to_pandas(self) -> "pandas.DataFrame":
        """Return a table of the scores by name: value, low, high (of 95 %), signature."""
        import pandas

        rows = score_rows(self.scores.as_json())
        return pandas.DataFrame(rows, columns=SCORE_COLUMNS).set_index("score")

    def cases_to_pandas(self) -> "pandas.DataFrame":
        """Return a table of each case's scores, by case id."""
        import pandas

        table = pandas.DataFrame.from_dict(self.scores.per_case, orient="index")
        return table.rename_axis("case_id")

    def _repr_html_(self) -> str:
        return scores_html(self.as_json(), self.scores.warnings)

    def as_json(self) -> JsonObject:
        """The object that `archqa score --json` prints."""
        content: JsonObject = {
            **self.scores.as_json(),
            "cases_in_key": self.cases_in_key,
            "baselines": self.baselines,
            "fingerprints": self.fingerprints,
            "key": self.key.as_json() if self.key else None,
        }
        origins = metric_origins(self.scores.signatures.values())
        if origins:
            content["plug_ins"] = origins
        if self.faults is not None:
            content["faults"] = self.faults
        return content


Rows = Sequence[Mapping[str, Any]]


class RowScorer(NamedTuple):
    """The references of a task by case id, and what scores rows against some of them: a function of
    the rows, the references and the keyword `metrics`.

    `case_metrics` are the metrics of a single case; None for all.
    """

    references: Mapping[str, Any]
    score: Callable[..., Scores]
    case_metrics: tuple[str, ...] | None = None

    def scores(self, rows: Rows, case_ids: Iterable[str]) -> Scores:
        """The scores of rows over these cases; those without a row count as unanswered."""
        return self.score(rows, self._references(case_ids), metrics=None)

    def case_scores(self, rows: Rows, case_id: str) -> dict[str, float]:
        """The scores of one case by name."""
        references = self._references([case_id])
        return self.score(rows, references, metrics=self.case_metrics).scores

    def _references(self, case_ids: Iterable[str]) -> list[Any]:
        wanted = set(case_ids)
        return [
            reference for name, reference in self.references.items() if name in wanted
        ]
