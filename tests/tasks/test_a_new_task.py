"""A new task is one folder and one registration: a toy task runs through the public functions and commands."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import archqa
from archqa.cli.main import app
from archqa.errors import CallerError
from archqa.report import write_report
from archqa.runs.export import export, formats
from archqa.runs.run import Run
from archqa.settings import load_settings
from archqa.tasks import registry

NAME = "toy-sums"

TASK = """
import json
from dataclasses import dataclass

from archqa.core.question import RecordQuestion
from archqa.core.result import TaskResult
from archqa.tasks.files.source import read_source
from archqa.tasks.task import ScoreDisplay, Task


class SumResult(TaskResult):
    total: int

    @property
    def answer_text(self):
        return str(self.total)


@dataclass(frozen=True)
class Sums(Task):
    def load(self, source):
        return tuple(map(to_question, read_source(source).content.value))

    def dump_line(self, item):
        return json.dumps({"sum_id": item.id, "terms": item.question})

    def read_line(self, line, path):
        return to_question(json.loads(line))

    def submission(self, ended):
        return [
            {"sum_id": case.item.id, "total": case.result.total} for case in ended if case.result
        ]


def to_question(row):
    return RecordQuestion(id=row["sum_id"], question=row["terms"])


SUMS = Sums(
    "toy-sums",
    "Sums of numbers",
    marks=frozenset({"sum_id", "terms"}),
    result_type=SumResult,
    pipelines_path="toy_sums.pipelines:PIPELINES",
    scoring_path="toy_sums.scoring:BRIDGE",
    display=ScoreDisplay(headline=("accuracy",)),
)
"""

SETTINGS = """
from pydantic import Field

from archqa.tasks.settings import PipelineSettings


class AdderSettings(PipelineSettings):
    carry: int = Field(default=0, ge=0, description="what the sum starts from")


PIPELINE_SETTINGS = {"adder": AdderSettings}
"""

PIPELINES = """
from archqa.tasks.pipeline import Pipeline, PipelineResult
from toy_sums.settings import AdderSettings
from toy_sums.task import SumResult


async def add(question, context, settings):
    terms = [int(term) for term in question.question.split("+")]
    return PipelineResult(result=SumResult(total=sum(terms, start=settings.carry)))


PIPELINES = (
    Pipeline(
        name="adder",
        summary="adds the terms",
        backend="embedded",
        run=add,
        prompts=(),
        agents=(),
        settings_type=AdderSettings,
        needs_record=False,
        reads_notes=False,
    ),
)
"""

SCORING = """
import json
from dataclasses import dataclass

from archqa.tasks.scoring import Gold, ScoringBridge
from scoring import Metric, Scores
from scoring.scores import add_metric


@dataclass(frozen=True, kw_only=True)
class Accuracy(Metric[bool]):
    name = "accuracy"
    width = 2

    def tally(self, case):
        return float(case), 1.0

    def value(self, total):
        return 100 * total[..., 0] / total[..., 1]


class SumScoring(ScoringBridge):
    def recognises_rows(self, rows, fields):
        return "sum_id" in fields

    def score(self, request):
        rows = json.loads(request.inputs.case_file.read_text())
        gold = {row["sum_id"]: row["sum"] for row in rows}
        selection = request.inputs.select_cases(gold)
        totals = {row["sum_id"]: row["total"] for row in request.submission.rows}
        correct = {sum_id: totals.get(sum_id) == gold[sum_id] for sum_id in selection.ids}
        scores = Scores("toy-sums", cases=len(correct))
        add_metric("accuracy", Accuracy(bs=0), correct, scores)
        reference = Gold(list(gold), [], {"key": "0"}, selection)
        return self.report(request, reference, scores, {"guess": {"accuracy": 0.0}})


BRIDGE = SumScoring()
"""

CASES = [
    {"sum_id": "a", "terms": "1 + 2", "sum": 3},
    {"sum_id": "b", "terms": "2 + 2", "sum": 5},
]


@pytest.fixture
def cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A case file of the toy task, whose package and registration last for the test."""
    package = tmp_path / "packages" / "toy_sums"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "task.py").write_text(TASK)
    (package / "settings.py").write_text(SETTINGS)
    (package / "pipelines.py").write_text(PIPELINES)
    (package / "scoring.py").write_text(SCORING)
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setitem(registry._TASKS, NAME, "toy_sums.task:SUMS")
    path = tmp_path / "sums.json"
    path.write_text(json.dumps(CASES))
    return path


@pytest.fixture
def run(cases: Path, tmp_path: Path) -> Run:
    """A finished run of the toy task."""
    return archqa.predict(cases, out=tmp_path / "run")


def test_a_run_recognises_the_task_and_writes_its_typed_result(run: Run) -> None:
    assert (run.manifest.task, run.manifest.pipeline) == (NAME, "adder")
    lines = (run.path / "cases.jsonl").read_text().splitlines()
    assert [json.loads(line)["result"] for line in lines] == [
        {"total": 3},
        {"total": 4},
    ]
    assert [type(record.result).__name__ for record in run.records] == [
        "SumResult",
        "SumResult",
    ]
    assert json.loads((run.path / "submission.json").read_text()) == [
        {"sum_id": "a", "total": 3},
        {"sum_id": "b", "total": 4},
    ]


def test_a_run_and_a_bare_submission_are_scored_alike(run: Run, cases: Path) -> None:
    assert archqa.score(run.path).scores.scores == {"accuracy": 50.0}
    assert json.loads((run.path / "scores.json").read_text())["scores"] == {
        "accuracy": 50.0
    }
    submission = run.path / "submission.json"
    assert archqa.score(submission, data=cases).scores.scores == {"accuracy": 50.0}
    assert archqa.score(submission, data=cases, case_ids=("a",)).scores.scores == {
        "accuracy": 100.0
    }


def test_its_pipeline_has_a_setting_of_its_own(cases: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    archqa.predict(cases, out=out, settings=load_settings(assignments=["carry=1"]))
    submission = json.loads((out / "submission.json").read_text())
    assert [row["total"] for row in submission] == [4, 5]
    manifest = json.loads((out / "run.json").read_text())
    assert manifest["settings"]["pipelines"] == {"adder": {"carry": 1}}


def test_a_wrong_value_of_its_setting_is_refused(cases: Path) -> None:
    with pytest.raises(CallerError, match="carry: Input should be greater"):
        load_settings(assignments=["carry=-1"])


def test_its_setting_has_a_short_and_a_full_name(cases: Path) -> None:
    by_short_name = load_settings(assignments=["carry=1"])
    by_full_name = load_settings(assignments=["pipelines.adder.carry=1"])
    assert by_short_name.model_dump() == by_full_name.model_dump()
    assert by_full_name.model_dump()["pipelines"]["adder"] == {"carry": 1}


def test_its_setting_is_unknown_without_the_task() -> None:
    with pytest.raises(CallerError, match="carry"):
        load_settings(assignments=["carry=1"])


def test_the_commands_know_the_task(run: Run) -> None:
    runner = CliRunner()
    shown = runner.invoke(app, ["show", str(run.path), "b"])
    assert shown.exit_code == 0, shown.output
    assert '"total": 4' in shown.output
    assert NAME in runner.invoke(app, ["list", "tasks"]).output
    assert "adder" in runner.invoke(app, ["list", "pipelines"]).output
    assert "what the sum starts from" in runner.invoke(app, ["list", "settings"]).output


def test_a_run_is_exported_and_reported(run: Run, tmp_path: Path) -> None:
    assert NAME in formats()
    assert json.loads(export(run.path, NAME))[0] == {"sum_id": "a", "total": 3}
    assert run.to_pandas()["answer"].tolist() == ["3", "4"]
    archqa.score(run.path)
    report = tmp_path / "report.html"
    write_report([run.path], report)
    assert "accuracy" in report.read_text(encoding="utf-8")
