"""Choosing among versions of a prompt: each case gets what was best on the others, and copies of it are not others."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from archqa import resources
from archqa.errors import CallerError
from archqa.evaluation import prompt_tuning
from archqa.evaluation.prompt_tuning import _Count, choose_out_of_fold, search_prompts
from archqa.llm.model import Request
from archqa.llm.prompts import Prompts
from archqa.llm.scripted import ScriptedModel
from archqa.runs.predict import predict
from archqa.runs.run import Run
from archqa.settings import load_settings
from tests.cli.test_commands import archqa
from tests.fakes.note_model import scripted_note_model
from tests.fakes.server import FakeServer

ROOT = Path(__file__).resolve().parents[2]


def count(good: bool, group: str) -> _Count:
    return _Count(hits=5 if good else 0, selected=5, gold=5, group=group)


def test_a_case_is_never_judged_by_a_choice_that_saw_it() -> None:
    """v1 is right on one case only; that case alone speaks for v1, and must not choose for itself."""
    counts = {
        "v1": {"1": count(True, "a"), "2": count(False, "b"), "3": count(False, "c")},
        "v2": {"1": count(False, "a"), "2": count(True, "b"), "3": count(False, "c")},
    }
    assert choose_out_of_fold(counts)["1"] == "v2"
    assert choose_out_of_fold(counts)["2"] == "v1"


def test_a_copy_of_a_case_does_not_choose_for_it_either() -> None:
    counts = {
        "v1": {
            "1": count(True, "same"),
            "2": count(True, "same"),
            "3": count(False, "c"),
        },
        "v2": {
            "1": count(False, "same"),
            "2": count(False, "same"),
            "3": count(True, "c"),
        },
    }
    assert choose_out_of_fold(counts)["1"] == "v2"


QUIET: dict[str, Any] = {
    "limit": None,
    "on_start": lambda *_: None,
    "on_case": lambda *_: None,
}


def test_versions_are_run_and_the_better_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def script(request: Request) -> str:
        """The comprehensive prompt makes this model cite the first half of a note, the other one the last sentence."""
        comprehensive = "Cite generously." in request.messages[0].content
        return scripted_note_model(
            [str(sentence_id) for sentence_id in range(1, 9)]
            if comprehensive
            else ["99"]
        )(request)

    prompts = with_second_version(tmp_path / "prompts", "decision/v2", "decision/v9")
    for module in ("llm.prompts", "agents.agent", "evaluation.prompt_tuning"):
        monkeypatch.setattr(f"archqa.{module}.default_prompts", lambda: prompts)
    monkeypatch.setattr(
        prompt_tuning,
        "predict",
        lambda *arguments, **named: predict(
            *arguments, **named, scripted=ScriptedModel(script)
        ),
    )
    settings = load_settings(
        typed={"pipeline": "dmis", "base_url": "http://127.0.0.1:9/v1", "cache": False}
    )
    versions = ("decision/v2", "decision/v9")
    key = ROOT / "data/mini/mini_key.json"
    search_result = search_prompts(
        "mini", "decision", versions, settings, key=key, out=tmp_path / "runs", **QUIET
    )
    assert search_result.best == "decision/v9"
    assert search_result.versions["decision/v9"] > search_result.versions["decision/v2"]
    assert search_result.held_out_f1 == search_result.versions["decision/v9"]
    assert set(search_result.runs) == set(versions)
    manifest = Run.open(search_result.runs["decision/v9"]).manifest
    assert manifest.prompts["decision/v9"] == prompts.digest("decision/v9")
    assert "decision/v2" not in manifest.prompts


def with_second_version(folder: Path, version: str, second_version: str) -> Prompts:
    """The prompts of archqa, and a copy of one with another sentence in its system message."""
    shutil.copytree(resources.prompts_dir(), folder)
    shutil.copytree(folder / version, folder / second_version)
    system = folder / second_version / "system.jinja"
    system.write_text(f"{system.read_text()}\nCite generously.\n")
    return Prompts(folder)


def test_one_version_or_an_unknown_one_is_refused(tmp_path: Path) -> None:
    settings = load_settings(typed={"pipeline": "dmis"})
    options = {"key": None, "out": tmp_path, **QUIET}
    with pytest.raises(CallerError, match="needs two versions"):
        search_prompts("mini", "decision", ("decision/v2",), settings, **options)
    with pytest.raises(CallerError, match="no prompt 'decision/v99'"):
        search_prompts(
            "mini", "decision", ("decision/v2", "decision/v99"), settings, **options
        )


def test_the_command_runs_each_version_in_a_folder_of_its_own(tmp_path: Path) -> None:
    with FakeServer() as server:
        words = [
            "tune",
            "mini",
            "--agent",
            "decision",
            "--prompts",
            "decision/v2,compress/v2",
        ]
        words += ["--base-url", server.base_url, "--model", "m", "--limit", "2"]
        words += [
            "--key",
            str(ROOT / "data/mini/mini_key.json"),
            "--out",
            str(tmp_path),
            "--json",
        ]
        result = archqa(*words)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert set(report["versions"]) == {"decision/v2", "compress/v2"}
    assert {path.name for path in tmp_path.iterdir()} == {"decision-v2", "compress-v2"}
