"""The scores of one run or submission, with what they were computed from: a mapping by name."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archqa.core.html import SCORE_COLUMNS, score_rows, scores_html
from archqa.core.near_misses import advice_on_name
from archqa.core.usage import Usage
from archqa.errors import quoted
from archqa.tasks.key_provenance import KeyProvenance
from archqa.tasks.scoring.plug_in_metrics import metric_origins
from scoring import Scores

if TYPE_CHECKING:
    import pandas

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
    disagreements: tuple[dict[str, Any], ...] = ()
    disagreements_path: Path | None = None
    unsupported_lines: tuple[dict[str, Any], ...] = ()
    unsupported_lines_path: Path | None = None
    judge_usage: Usage | None = None
    faults: dict[str, dict[str, Any]] | None = None
    run_files: dict[str, Any] = field(default_factory=dict)
    cases_in_key: int = 0
    key: KeyProvenance | None = None

    def __getitem__(self, name: str) -> float:
        """The score of that name. Raises `KeyError` that says what it may be, or why it is missing."""
        if name not in self.scores.scores:
            raise KeyError(_no_score(name, self.scores))
        return self.scores.scores[name]

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

    def as_json(self) -> dict[str, Any]:
        """The object that `archqa score --json` prints."""
        content: dict[str, Any] = {
            **self.scores.as_json(),
            "cases_in_key": self.cases_in_key,
            "baselines": self.baselines,
            "fingerprints": self.fingerprints,
            "key": self.key.as_json() if self.key else None,
        }
        plug_ins = metric_origins(self.scores.signatures.values())
        if plug_ins:
            content["plug_ins"] = plug_ins
        if self.faults is not None:
            content["faults"] = self.faults
        return content


def _no_score(name: object, scores: Scores) -> str:
    """Say why there is no score of a name."""
    if name in scores.missing:
        return f"{name} is missing: {scores.missing[str(name)]}"
    if name in scores.tables:
        return f"{name} is a break-down: see .scores.tables[{name!r}]"
    return f"There is no score {quoted(name)}. {advice_on_name(name, scores.scores)}"
