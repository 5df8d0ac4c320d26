"""Parts of other distributions are found by their entry points, used by name, and recorded."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "archqa-example-plugin"
ORIGIN = "archqa-example-plugin 0.1.0"
ADVICE = "Update acme, or uninstall it."

SEVERAL = """
import sys
from archqa.cli import main

for arguments in sys.argv[1].split(";"):
    sys.argv = ["archqa", *arguments.split()]
    try:
        main.run()
    except SystemExit as end:
        assert not end.code, arguments
"""
"""Runs commands that are divided by semicolons, which saves the start of a process for each."""

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def command(place: Path, cwd: Path) -> Command:
    """The command line in a process of its own, with the distributions in `place`."""
    environment = {**os.environ, "COLUMNS": "160", "XDG_CONFIG_HOME": str(cwd)}
    environment["PYTHONPATH"] = os.pathsep.join(map(str, (ROOT, place)))

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        program = ["-m", "archqa", *arguments]
        if ";" in arguments[0]:
            program = ["-c", SEVERAL, *arguments]
        python = [sys.executable, *program]
        return subprocess.run(
            python,
            cwd=cwd,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.fixture(scope="module")
def archqa(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """The command line where the example is installed, as people install it but offline."""
    pytest.importorskip(
        "hatchling", reason="builds the example; it is in the group dev"
    )
    place = tmp_path_factory.mktemp("installed")
    options = [
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "--target",
        str(place),
    ]
    pip = [sys.executable, "-m", "pip", "install", *options, str(EXAMPLE)]
    subprocess.run(pip, check=True, capture_output=True)
    return command(place, cwd=tmp_path_factory.mktemp("here"))


@pytest.fixture(scope="module")
def run(archqa: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the example's pipeline by the example's backend."""
    out = tmp_path_factory.mktemp("runs") / "plain"
    options = [
        "--pipeline",
        "plain",
        "--backend",
        "shared-words",
        "--set",
        "answer_words=5",
    ]
    result = archqa("predict", "mini", *options, "--out", str(out))
    assert result.returncode == 0, result.stderr
    assert "record text goes to the backend shared-words" in result.stderr
    return out


def test_list_says_where_each_part_comes_from(archqa: Command) -> None:
    result = archqa("list agents;list backends;list metrics;list pipelines;list tasks")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    kinds = [line.split()[0] for line in lines if line.split()[1] == "from"]
    assert kinds == ["agent", "backend", "metric", "pipeline", "task"]
    origins = {line.split()[0]: line for line in lines}
    for name in (
        "plain_answer",
        "shared-words",
        "words_per_line",
        "plain",
        "true-or-false",
    ):
        assert ORIGIN in origins[name]
    for name in ("decision", "model", "bleu", "dmis", "medagentbench"):
        assert origins[name].split()[1] == "archqa"


def test_run_json_has_the_distribution_and_version_of_every_part(run: Path) -> None:
    manifest = json.loads((run / "run.json").read_text())
    parts = {"pipelines.plain", "agents.plain_answer", "backends.shared-words"}
    assert manifest["plug_ins"] == dict.fromkeys(parts, ORIGIN)
    backend = {"kind": "custom", "name": "shared-words", "origin": ORIGIN}
    assert manifest["backends"] == {"plain_answer": backend}
    assert list(manifest["prompts"]) == ["plain_answer/v1"]
    assert manifest["settings"]["pipelines"] == {"plain": {"answer_words": 5}}


def test_its_setting_applied_and_its_calls_are_in_the_trace(run: Path) -> None:
    for line in (run / "cases.jsonl").read_text().splitlines():
        [claim] = json.loads(line)["answer"]["claims"]
        assert len(claim["text"].split()) == 5
    traces = list((run / "trace").iterdir())
    assert len(traces) == 3
    steps = [json.loads(line) for line in traces[0].read_text().splitlines()]
    assert [(step["agent"], step["backend"]) for step in steps] == [
        ("plain_answer", "shared-words")
    ]


def test_its_metric_scores_the_run_and_its_origin_is_kept(
    archqa: Command, run: Path
) -> None:
    metrics = ["--metric", "words_per_line(shortest=2)", "--metric", "strict_micro_f1"]
    report = json.loads(archqa("score", str(run), *metrics, "--json").stdout)
    name = "words_per_line(shortest=2)"
    assert report["scores"][name] == 5
    assert report["signatures"][name].startswith("words_per_line|shortest:2")
    assert report["plug_ins"] == {"metrics.words_per_line": ORIGIN}


def test_a_run_is_not_resumed_with_another_version_of_a_plug_in(
    archqa: Command, run: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "run"
    copy.mkdir()
    for name in ("input.jsonl", "cases.jsonl"):
        (copy / name).write_text((run / name).read_text())
    manifest = (run / "run.json").read_text()
    (copy / "run.json").write_text(
        manifest.replace(ORIGIN, "archqa-example-plugin 0.0.9")
    )
    options = [
        "--pipeline",
        "plain",
        "--backend",
        "shared-words",
        "--set",
        "answer_words=5",
    ]
    result = archqa("predict", "mini", *options, "--out", str(copy), "--resume")
    assert result.returncode == 2
    assert "plug_ins" in result.stderr


def test_its_task_is_recognised_answered_and_scored(
    archqa: Command, tmp_path: Path
) -> None:
    cases = tmp_path / "statements.json"
    statements = [
        ("a", "Fever is always viral", False),
        ("b", "Insulin lowers glucose", True),
    ]
    rows = [
        {"statement_id": each, "statement": text, "is_true": truth}
        for each, text, truth in statements
    ]
    cases.write_text(json.dumps(rows))
    out = tmp_path / "run"
    assert archqa("predict", str(cases), "--out", str(out)).returncode == 0
    report = json.loads(archqa("score", str(out), "--json").stdout)
    assert report["scores"] == {"statement_accuracy": 100}
    setting = "pipelines.doubt.doubtful=insulin"
    unsure = archqa(
        "predict", str(cases), "--set", setting, "--out", str(tmp_path / "unsure")
    )
    assert unsure.returncode == 0, unsure.stderr
    submission = json.loads((tmp_path / "unsure" / "submission.json").read_text())
    assert [row["held"] for row in submission] == [True, False]


def test_a_model_runs_its_agent_with_the_prompt_of_its_own_folder(
    archqa: Command, tmp_path: Path
) -> None:
    result = archqa(
        "predict", "mini", "--pipeline", "plain", "--model", "m", "--dry-run", "--json"
    )
    assert result.returncode == 0, result.stderr
    [row] = json.loads(result.stdout)["by_agent"]
    assert (row["agent"], row["calls"]) == ("plain_answer", 3)


ACME = """
[archqa.pipelines]
absent = acme_absent:PIPELINE
loud = acme_loud:PIPELINE
planner = acme_loud:PLANNER
[archqa.metrics]
bleu = acme_loud:Bleu
odd = acme_loud:ODD
[archqa.backends]
model = acme_loud:Model
"""


@pytest.fixture
def with_acme(tmp_path: Path) -> Command:
    """The command line where a distribution with faulty plug-ins is installed."""
    place = tmp_path / "installed"
    metadata = place / "acme-2.1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: acme\nVersion: 2.1\n"
    )
    (metadata / "entry_points.txt").write_text(ACME)
    (place / "acme_loud.py").write_text(
        "import sys\nprint('IMPORTED', file=sys.stderr)\nODD = 1\n"
    )
    return command(place, cwd=tmp_path)


def test_commands_that_use_no_plug_in_import_none(with_acme: Command) -> None:
    result = with_acme("--version;config show;predict mini --limit 1")
    assert result.returncode == 0, result.stderr
    assert "IMPORTED" not in result.stderr


def test_a_plug_in_that_cannot_be_imported_is_one_sentence_and_exit_code_3(
    with_acme: Command,
) -> None:
    result = with_acme("predict", "mini", "--pipeline", "absent")
    assert result.returncode == 3
    assert (
        "archqa.pipelines: absent = acme_absent:PIPELINE of acme 2.1 cannot be"
        in result.stderr
    )
    assert "No module named 'acme_absent'" in result.stderr
    assert ADVICE in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def test_lists_go_on_after_faulty_plug_ins_and_name_each(with_acme: Command) -> None:
    result = with_acme("list pipelines;list metrics;list backends")
    assert result.returncode == 0
    origins = [line.split()[:2] for line in result.stdout.splitlines()]
    for name in ("planner", "bleu", "model"):
        assert [origin for listed, origin in origins if listed == name] == ["archqa"]
    assert (
        "absent = acme_absent:PIPELINE of acme 2.1 cannot be imported" in result.stderr
    )
    for taken in (
        "archqa.pipelines: planner = acme_loud:PLANNER",
        "archqa.metrics: bleu = acme_loud:Bleu",
        "archqa.backends: model = acme_loud:Model",
    ):
        assert f"{taken} of acme 2.1 is ignored" in result.stderr


def test_an_object_that_is_no_metric_is_refused_by_its_name(
    with_acme: Command, tmp_path: Path
) -> None:
    made = with_acme("predict", "mini", "--limit", "1", "--out", "run")
    assert made.returncode == 0, made.stderr
    result = with_acme("score", "run", "--metric", "odd")
    assert result.returncode == 2
    assert (
        "archqa.metrics: odd = acme_loud:ODD of acme 2.1 is no scoring.Metric"
        in result.stderr
    )


def test_an_unknown_backend_is_refused_with_the_names_there_are(
    with_acme: Command,
) -> None:
    result = with_acme("predict", "mini", "--backend", "shared-words")
    assert result.returncode == 2
    assert "backend: Input should be 'model' or 'embedded'" in result.stderr
