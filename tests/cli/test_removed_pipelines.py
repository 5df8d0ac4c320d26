"""Runs of a pipeline that archqa no longer has open; nothing goes on with them."""

import json
from pathlib import Path

import pytest

from tests.cli.test_commands import archqa

SETTINGS = {
    "labels": "binary",
    "answers": 1,
    "voters": "",
    "combiner": None,
    "margin": 0.15,
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run as the pipeline `panel` left it: its settings, its voters, and a question besides."""
    run = tmp_path / "run"
    made = archqa("predict", "mini", "--out", str(run), "--quiet")
    assert made.returncode == 0, made.stderr
    manifest = json.loads((run / "run.json").read_text())
    manifest["pipeline"] = manifest["settings"]["pipeline"] = "panel"
    manifest["settings"]["pipelines"] = {"panel": SETTINGS}
    manifest["settings"]["servers"] = {"lab": {"base_url": "http://127.0.0.1:9/v1"}}
    manifest["settings"]["agents"] = {"general_expert": {"models": ["m", "n@lab"]}}
    backend = {"kind": "model", "name": "m, n@lab", "server": "http://127.0.0.1:9/v1"}
    manifest["backends"] = {"general_expert": backend}
    manifest["prompts"] = {"general_vote/v2": "0" * 64}
    (run / "run.json").write_text(json.dumps(manifest))
    lines = []
    for line in (run / "cases.jsonl").read_text().splitlines():
        record = json.loads(line)
        record["result"] = {"question": "Why was the tube placed?"}
        votes = record["judgements"]["general expert"]
        record["judgements"] = {
            "general expert @ m": votes,
            "answer first @ n@lab": votes,
        }
        lines.append(json.dumps(record))
    (run / "cases.jsonl").write_text("\n".join(lines) + "\n")
    return run


@pytest.mark.parametrize(
    "command",
    [
        ("show", "RUN"),
        ("show", "RUN", "3", "--rationales"),
        ("score", "RUN", "--metric", "strict_micro_f1", "--json"),
        ("report", "RUN", "--out", "OUT"),
        ("compare", "RUN", "RUN"),
        ("export", "RUN", "--format", "archehr-2026-st2", "--out", "OUT"),
    ],
    ids=lambda command: " ".join(command),
)
def test_a_run_of_a_removed_pipeline_opens(
    command: tuple[str, ...], run: Path, tmp_path: Path
) -> None:
    places = {"RUN": str(run), "OUT": str(tmp_path / "out.zip")}
    result = archqa(*(places.get(word, word) for word in command))
    assert result.returncode == 0, result.stderr


def test_a_run_of_a_removed_pipeline_is_not_resumed(run: Path) -> None:
    options = ("--base-url", "http://127.0.0.1:9/v1", "--model", "m")
    resumed = archqa(
        "predict", "mini", "--out", str(run), "--resume", "--yes", *options
    )
    assert resumed.returncode == 2
    assert "was another run: pipeline, prompts, backends differ" in resumed.stderr
    with_its_pipeline = archqa(
        "predict", "mini", "--out", str(run), "--resume", "--pipeline", "panel"
    )
    assert with_its_pipeline.returncode == 2
    assert "There is no pipeline 'panel' for archehr-2025." in with_its_pipeline.stderr


@pytest.mark.parametrize("action", ["submit", "fetch"])
def test_a_run_of_a_removed_pipeline_does_not_go_on_as_a_batch(
    action: str, run: Path
) -> None:
    result = archqa("batch", action, str(run))
    assert result.returncode == 3
    assert "settings.pipelines.panel Extra inputs are not permitted" in result.stderr
    assert "Begin the run anew, with the settings of this version." in result.stderr
