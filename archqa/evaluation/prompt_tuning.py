"""Selects the best version of a prompt on cases with a key, evaluated out of fold.

Every version is run once; then each case gets the version that was best on all other cases. The F1 of that
choice is unbiased; the best version's own score on the cases that selected it is not.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from archqa import tasks
from archqa.core.case import case_digest
from archqa.core.key import CaseKey
from archqa.errors import CallerError
from archqa.llm.prompts import default_prompts
from archqa.runs.destinations import Announce
from archqa.runs.plan import Selection
from archqa.runs.predict import OnStart, predict
from archqa.runs.run import Run
from archqa.runs.runner import OnCase
from archqa.settings import Settings
from archqa.tasks.key_provenance import KeyProvenance, ScoredKeys, key_provenance
from archqa.tasks.task import KeyFile


class _Count(NamedTuple):
    """Counts of one case under one version; `group` is shared by cases of the same content."""

    hits: int
    selected: int
    gold: int
    group: str


CountsByVersion = Mapping[str, Mapping[str, _Count]]
"""Prompt version → case id → counts."""


class PromptSearchResult(NamedTuple):
    """Each version's strict micro F1 on all cases, the out-of-fold F1, and how often each was chosen."""

    agent: str
    versions: dict[str, float]
    held_out_f1: float
    chosen: dict[str, int]
    best: str
    runs: dict[str, Path]
    key: KeyProvenance

    def as_json(self) -> dict[str, Any]:
        """The object that `archqa tune --json` prints."""
        return {
            **self._asdict(),
            "runs": {version: str(path) for version, path in self.runs.items()},
            "key": self.key.as_json(),
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
    announce: Announce | None = None,
) -> PromptSearchResult:
    """Run every version in a folder of its own below `out` and choose; finished runs are reused.

    Raises `CallerError` for fewer than two versions, for one that does not exist and where there is no key.
    """
    _check_versions(versions)
    key = key or tasks.find_key(cases)
    if key is None:
        raise CallerError(f"There is no key beside {cases}.\nName it with --key FILE.")
    key_file = tasks.load_key(key)
    out = out or Path("runs") / f"prompts-{Path(cases).stem}"
    runs: dict[str, Run] = {}
    counts: dict[str, dict[str, _Count]] = {}
    for version in versions:
        own = settings.agent(agent).model_copy(update={"prompt": version})
        agents = {**settings.agents, agent: own}
        run = predict(
            cases,
            out=out / version.replace("/", "-"),
            resume=True,
            selection=Selection(limit=limit),
            settings=settings.model_copy(update={"agents": agents}),
            on_start=on_start,
            on_case=on_case,
            announce=announce,
        )
        runs[version] = run
        counts[version] = _case_counts(run, key_file.keys)
    choices = choose_out_of_fold(counts)
    return PromptSearchResult(
        agent=agent,
        versions={
            version: _f1(by_case.values()) for version, by_case in counts.items()
        },
        held_out_f1=_f1(
            counts[version][case_id] for case_id, version in choices.items()
        ),
        chosen=dict(Counter(choices.values())),
        best=_best_version(counts, excluded_group=None),
        runs={version: run.path for version, run in runs.items()},
        key=_provenance(key_file, list(runs.values())),
    )


def choose_out_of_fold(counts: CountsByVersion) -> dict[str, str]:
    """Case id → the version that was best on all cases of other content."""
    any_version = next(iter(counts.values()))
    choices = {}
    for case_id, count in any_version.items():
        choices[case_id] = _best_version(counts, excluded_group=count.group)
    return choices


def _best_version(counts: CountsByVersion, excluded_group: str | None) -> str:
    """The version with the highest F1 over all other groups; the first of equals."""
    scores = {}
    for version, by_case in counts.items():
        included = [
            count for count in by_case.values() if count.group != excluded_group
        ]
        scores[version] = _f1(included)
    return max(scores, key=lambda version: scores[version])


def _case_counts(run: Run, keys: Mapping[str, CaseKey]) -> dict[str, _Count]:
    counts = {}
    for case in run.notes:
        key = keys.get(case.id)
        if key is None or not key.labels:
            continue
        record = run.get_record(case.id)
        evidence = set(record.evidence) if record else set()
        evidence -= key.without_label(case.sentence_ids)
        hits = len(evidence & key.essential)
        counts[case.id] = _Count(
            hits, len(evidence), len(key.essential), case_digest(case)
        )
    if not counts:
        raise CallerError(
            "No case has both an answer and labels.\nIs this the key of these cases?"
        )
    return counts


def _provenance(key_file: KeyFile, runs: Sequence[Run]) -> KeyProvenance:
    """What a key is to these runs of the same cases: only the keys of their cases count."""
    sentence_ids = {case.id: case.sentence_ids for run in runs for case in run.notes}
    keys = {
        case_id: key
        for case_id, key in key_file.keys.items()
        if case_id in sentence_ids
    }
    scored = ScoredKeys(keys, sentence_ids)
    folders = [run.path for run in runs]
    key = key_provenance(key_file.path, key_file.sha256, scored, folders)
    return key.meeting(equals_run=any(_has_same_evidence(run, keys) for run in runs))


def _has_same_evidence(run: Run, keys: Mapping[str, CaseKey]) -> bool:
    """Whether the labels say throughout what a run has chosen."""
    for case_id, key in keys.items():
        record = run.get_record(case_id)
        chosen = frozenset(record.evidence) if record else frozenset()
        if key.labels and chosen & key.labels.keys() != key.essential:
            return False
    return True


def _f1(counts: Iterable[_Count]) -> float:
    hits = total = 0
    for count in counts:
        hits += count.hits
        total += count.selected + count.gold
    return 200 * hits / max(1, total)


def _check_versions(versions: tuple[str, ...]) -> None:
    if len(set(versions)) < 2:
        raise CallerError(
            "A search needs two versions at least.\nFor example: --prompts decision/v2,decision/v3"
        )
    for version in versions:
        default_prompts().digest(version)  # Raises for a prompt that does not exist.
