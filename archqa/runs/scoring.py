"""Where a run meets the rulers: the only place that knows both archqa and `scoring`."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from archqa import benchmarks
from archqa.core.case import Case
from archqa.core.key import CaseKey
from archqa.errors import CallerError, InputError
from archqa.runs.run import Run
from scoring import Comparison, Scores, ScoringError, compare, known_metrics
from scoring.tasks import archehr2025

_BASELINE_METRICS = ("strict_micro_precision", "strict_micro_recall", "strict_micro_f1")


class ScoreSettings(NamedTuple):
    """How to score; the defaults are the official rules with the reference in note order."""

    metrics: tuple[str, ...] | None = None
    reference_order: str = "note"
    bootstrap: int = 1000
    seed: int = 12345
    quickumls_path: Path | None = None
    alignscore_path: Path | None = None
    bertscore_model: str | None = None


class Report(NamedTuple):
    """Scores beside what they should be read against. `baselines` maps a name to its scores."""

    scores: Scores
    baselines: dict[str, Scores]
    fingerprints: dict[str, str]

    def as_json(self) -> dict[str, Any]:
        """The object that `archqa score --json` prints."""
        beside = {name: scores.scores for name, scores in self.baselines.items()}
        return {**self.scores.as_json(), "baselines": beside, "fingerprints": self.fingerprints}


class Gold(NamedTuple):
    """A case file with its key and, where there is one, a second reader's."""

    references: list[archehr2025.Reference]
    second: list[archehr2025.Reference]
    fingerprints: dict[str, str]


def score(
    target: str | Path,
    *,
    key: Path | None = None,
    data: Path | None = None,
    second_key: Path | None = None,
    settings: ScoreSettings | None = None,
) -> Report:
    """Score a run folder or a submission file. A run knows its data; a bare file needs `data` and `key`.

    Writes `scores.json` into a run folder. Raises `InputError` for files that are absent, malformed or do not belong
    together, `CallerError` for an unknown metric or a missing key.
    """
    path = Path(target)
    run = Run.open(path) if path.is_dir() else None
    submission = run.submission() if run else read_submission(path)
    gold = read_gold(data or _data_of(run), key, second_key, cases=_cases_of(run) if data is None else None)
    fingerprints = {**gold.fingerprints, "submission": _sha256(json.dumps(submission, sort_keys=True).encode())}
    report = Report(_score(path, submission, gold, settings or ScoreSettings()), baselines(gold), fingerprints)
    if run:
        run.folder.write_json("scores.json", report.as_json())
    return report


def read_gold(
    data: Path | None, key: Path | None, second_key: Path | None = None, cases: Sequence[Case] | None = None
) -> Gold:
    """The references to score against. The key is `key`, else the one beside the case file."""
    if data is None:
        raise CallerError("A submission file alone does not say which cases it answers.\nName them with --data FILE.")
    if cases is None:
        cases = benchmarks.load_cases(data).cases
    found = key or benchmarks.find_key(data)
    if found is None:
        raise CallerError(f"There is no key beside {data}.\nName it with --key FILE.")
    first = benchmarks.load_key(found)
    beside = second_key or _second_key_beside(data)
    second = benchmarks.load_key(beside) if beside else None
    fingerprints = {"key": first.sha256} | ({"second_key": second.sha256} if second else {})
    if data.is_file():
        fingerprints["data"] = _sha256(data.read_bytes())
    return Gold(_references(cases, first.keys), _references(cases, second.keys) if second else [], fingerprints)


def read_submission(path: Path) -> list[dict[str, Any]]:
    """A submission file. Raises `InputError` if it is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError:
        raise InputError(path, [": cannot be read."], "Name a run folder or a submission.json.") from None
    except (ValueError, RecursionError):
        raise InputError(path, [": is not JSON."], 'A submission is [{"case_id": "1", "answer": "... |2|"}].') from None
    if not isinstance(content, list):
        raise InputError(path, [": is not a list."], 'A submission is [{"case_id": "1", "answer": "... |2|"}].')
    return content


def baselines(gold: Gold) -> dict[str, Scores]:
    """What any score should be read against: citing everything, and the second reader where there is one."""
    found = {"cite_everything": archehr2025.cite_everything(gold.references)}
    if gold.second:
        found["second_reader"] = archehr2025.cite_essential(gold.second)
    return {
        name: archehr2025.score(submission, gold.references, metrics=_BASELINE_METRICS)
        for name, submission in found.items()
    }


def compare_runs(
    first: str | Path,
    second: str | Path,
    *,
    key: Path | None = None,
    metrics: tuple[str, ...] | None = None,
    method: str,
) -> dict[str, Comparison]:
    """A paired test of two runs of the same cases, score by score (`scoring.compare`). Raises as `score` does."""
    settings = ScoreSettings(metrics=metrics)
    one, two = (score(path, key=key, settings=settings).scores for path in (first, second))
    try:
        return compare(one, two, method)
    except ScoringError as error:
        raise CallerError(str(error)) from None


def availability() -> dict[str, str | None]:
    """Every metric of the leaderboard of 2025: None where it can run here, else what to install."""
    return {name: metric.availability() for name, metric in archehr2025.leaderboard().items()}


def metric_names() -> list[str]:
    """The names `--metric` takes."""
    return sorted({*known_metrics(), *archehr2025.leaderboard()})


def _score(path: Path, submission: list[dict[str, Any]], gold: Gold, settings: ScoreSettings) -> Scores:
    try:
        return archehr2025.score(submission, gold.references, **settings._asdict())
    except ScoringError as error:
        raise InputError(path, [f": {line}" for line in str(error).splitlines()]) from None


def _references(cases: Sequence[Case], keys: dict[str, CaseKey]) -> list[archehr2025.Reference]:
    return [_reference(case, keys[case.id]) for case in cases if case.id in keys]


def _reference(case: Case, key: CaseKey) -> archehr2025.Reference:
    return archehr2025.Reference(
        case_id=case.id,
        question=case.patient_narrative,
        sentences=case.text_of,
        labels={each: label.value for each, label in key.labels.items()},
        narrative=case.patient_narrative,
        clinician_question=case.clinician_question,
        clinician_answer=key.clinician_answer,
    )


def _data_of(run: Run | None) -> Path | None:
    return None if run is None else Path(run.manifest.data.path)


def _cases_of(run: Run | None) -> Sequence[Case] | None:
    """The run's own copy, once the file it read is gone or another. Otherwise the whole file counts, run or not."""
    if run is None:
        return None
    path = Path(run.manifest.data.path)
    same = path.is_file() and _sha256(path.read_bytes()) == run.manifest.data.sha256
    return None if same else run.cases


def _second_key_beside(data: Path) -> Path | None:
    names = (f"{data.stem}_second_key.json", "second_annotation_key.json")
    return next((path for name in names if (path := data.with_name(name)).is_file()), None)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
