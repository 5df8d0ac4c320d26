"""Which version of a prompt is best, tried on cases with a key and judged on cases the choice did not see.

Every version is run once; then each case gets the version that was best on all the others. What that reaches is what
the search may promise; the best version's own score on the cases that chose it is not.
"""

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from archqa import tasks
from archqa.core.case import Case
from archqa.core.case_digest import case_digest
from archqa.core.key import CaseKey
from archqa.errors import CallerError
from archqa.llm.prompts import default_prompts
from archqa.runs.case_selection import Selection
from archqa.runs.predict import OnStart, predict
from archqa.runs.run import Run
from archqa.runs.runner import OnCase
from archqa.settings import AgentSettings, Settings


class _Count(NamedTuple):
    """Hits, picks and golds of one case under one version; `group` is shared by cases of the same content."""

    hits: int
    picked: int
    gold: int
    group: str


class PromptSearchResult(NamedTuple):
    """Each version's strict micro F1 on all cases, what the held-out choice reaches, and how often each was chosen."""

    agent: str
    versions: dict[str, float]
    held_out_f1: float
    chosen: dict[str, int]
    best: str
    runs: dict[str, Path]

    def as_json(self) -> dict[str, Any]:
        """The object that `archqa tune --json` prints."""
        return {
            **self._asdict(),
            "runs": {version: str(path) for version, path in self.runs.items()},
        }


def search_prompts(
    cases: str,
    agent: str,
    versions: tuple[str, ...],
    settings: Settings,
    *,
    key: Path | None,
    out: Path | None,
    limit: int | None,
    on_start: OnStart,
    on_case: OnCase,
) -> PromptSearchResult:
    """Run every version in a folder of its own below `out` and choose; finished runs are not run again.

    Raises `CallerError` for fewer than two versions, for one that does not exist and where there is no key.
    """
    _check(versions)
    found = key or tasks.find_key(cases)
    if found is None:
        raise CallerError(f"There is no key beside {cases}.\nName it with --key FILE.")
    keys = tasks.load_key(found).keys
    out = out or Path("runs") / f"prompts-{Path(cases).stem}"
    runs = {
        version: predict(
            cases,
            out=out / version.replace("/", "-"),
            resume=True,
            selection=Selection(limit=limit),
            settings=_with(settings, agent, version),
            on_start=on_start,
            on_case=on_case,
        )
        for version in versions
    }
    counts = {version: _counts(run, keys) for version, run in runs.items()}
    choices = choose_out_of_fold(counts)
    return PromptSearchResult(
        agent=agent,
        versions={version: _f1(list(rows.values())) for version, rows in counts.items()},
        held_out_f1=_f1([counts[version][case] for case, version in choices.items()]),
        chosen=dict(Counter(choices.values())),
        best=_best(counts, frozenset()),
        runs={version: run.path for version, run in runs.items()},
    )


def choose_out_of_fold(counts: dict[str, dict[str, _Count]]) -> dict[str, str]:
    """Case id to the version that was best on all cases of other content."""
    first = next(iter(counts.values()))
    return {case: _best(counts, frozenset({row.group})) for case, row in first.items()}


def _best(counts: dict[str, dict[str, _Count]], unseen: frozenset[str]) -> str:
    """The version with the highest F1 over the groups that may be seen; the first of equals."""
    scores = {
        version: _f1([row for row in rows.values() if row.group not in unseen])
        for version, rows in counts.items()
    }
    return max(scores, key=lambda version: scores[version])


def _counts(run: Run, keys: dict[str, CaseKey]) -> dict[str, _Count]:
    rows = {}
    for case in run.cases:
        if isinstance(case, Case) and case.id in keys and keys[case.id].labels:
            record, gold = run.get_record(case.id), keys[case.id].essential
            evidence = set(record.evidence) if record else set()
            rows[case.id] = _Count(
                len(evidence & gold), len(evidence), len(gold), case_digest(case)
            )
    if not rows:
        raise CallerError("No case has both an answer and labels.\nIs this the key of these cases?")
    return rows


def _f1(rows: list[_Count]) -> float:
    return 200 * sum(row.hits for row in rows) / max(1, sum(row.picked + row.gold for row in rows))


def _check(versions: tuple[str, ...]) -> None:
    if len(set(versions)) < 2:
        raise CallerError(
            "A search needs two versions at least.\nFor example: --prompts answer_first/v1,answer_first/v2"
        )
    for version in versions:
        default_prompts().digest(version)  # Raises for a prompt that does not exist.


def _with(settings: Settings, agent: str, version: str) -> Settings:
    own: AgentSettings = settings.agent(agent).model_copy(update={"prompt": version})
    return settings.model_copy(update={"agents": {**settings.agents, agent: own}})
