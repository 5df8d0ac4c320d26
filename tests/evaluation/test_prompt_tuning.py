"""Choosing among versions of a prompt: each case gets what was best on the others, and copies of it are not others."""

from pathlib import Path

import pytest

from archqa.errors import CallerError
from archqa.evaluation import prompt_tuning
from archqa.evaluation.prompt_tuning import _Count, choose_out_of_fold, search_prompts
from archqa.llm.model import Request
from archqa.llm.scripted import ScriptedModel
from archqa.runs.predict import predict
from archqa.settings import load_settings
from tests.fakes.panel import scripted_panel_model

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
        "v1": {"1": count(True, "same"), "2": count(True, "same"), "3": count(False, "c")},
        "v2": {"1": count(False, "same"), "2": count(False, "same"), "3": count(True, "c")},
    }
    assert choose_out_of_fold(counts)["1"] == "v2"


def test_versions_are_run_and_the_better_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def script(request: Request) -> str:
        """The comprehensive prompt makes this model cite the first half of a note, the other one the last sentence."""
        comprehensive = "a reader would want to see" in request.messages[0].content
        return scripted_panel_model(
            [str(sentence_id) for sentence_id in range(1, 9)] if comprehensive else ["99"]
        )(request)

    monkeypatch.setattr(
        prompt_tuning,
        "predict",
        lambda *arguments, **named: predict(*arguments, **named, scripted=ScriptedModel(script)),
    )
    settings = load_settings(
        typed={"pipeline": "panel", "base_url": "http://127.0.0.1:9/v1", "cache": False},
        assignments=["voters=answer first", "answers=3", "verify=off"],
    )
    versions = ("answer_first/v1", "answer_first/v2")
    key = ROOT / "data/mini/mini_key.json"
    quiet = {"limit": None, "on_start": lambda *_: None, "on_case": lambda *_: None}
    search_result = search_prompts(
        "mini", "answer_first", versions, settings, key=key, out=tmp_path, **quiet
    )  # type: ignore[arg-type]
    assert search_result.best == "answer_first/v2"
    assert search_result.versions["answer_first/v2"] > search_result.versions["answer_first/v1"]
    assert search_result.held_out_f1 == search_result.versions["answer_first/v2"]
    assert set(search_result.runs) == set(versions)


def test_one_version_or_an_unknown_one_is_refused(tmp_path: Path) -> None:
    settings = load_settings(typed={"pipeline": "panel"})
    quiet = {
        "key": None,
        "out": tmp_path,
        "limit": None,
        "on_start": lambda *_: None,
        "on_case": lambda *_: None,
    }
    with pytest.raises(CallerError, match="needs two versions"):
        search_prompts("mini", "answer_first", ("answer_first/v1",), settings, **quiet)  # type: ignore[arg-type]
    with pytest.raises(CallerError, match="no prompt 'answer_first/v9'"):
        search_prompts(
            "mini", "answer_first", ("answer_first/v1", "answer_first/v9"), settings, **quiet
        )  # type: ignore[arg-type]
