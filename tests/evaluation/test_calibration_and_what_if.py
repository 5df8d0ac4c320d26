"""A panel run keeps its votes: they can be weighed, decided and handed in anew, and nobody is asked again."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from archqa.core.case import Case
from archqa.errors import CallerError, InputError, ServerUnavailable
from archqa.evaluation.calibration import calibrate
from archqa.evaluation.scoring import ScoreSettings, score
from archqa.evaluation.what_if import settings_from_run, what_if
from archqa.llm.model import Request
from archqa.llm.scripted import ScriptedModel
from archqa.runs.export import export, zip_submission
from archqa.runs.predict import predict
from archqa.runs.run import Run
from archqa.settings import load_settings
from archqa.tasks import load_cases, load_key
from tests.fakes.panel import scripted_panel_model, sentence_ids_in_schema

ROOT = Path(__file__).resolve().parents[2]
MINI = load_cases("mini")
KEYS = load_key(ROOT / "data/mini/mini_key.json").keys


def case_of(request: Request) -> Case:
    return next(
        case for case in MINI.notes if case.patient_narrative[:60] in request.messages[1].content
    )


def good(request: Request) -> set[str]:
    return set(KEYS[case_of(request).id].essential)


def bad(request: Request) -> set[str]:
    """What no answer needs."""
    return set(sentence_ids_in_schema(request)) - good(request)


def script(request: Request) -> Any:
    """Two models: one is right and one is wrong; a third is down."""
    if request.model == "dead":
        return ServerUnavailable("down")
    return scripted_panel_model(bad if request.model == "wrong" else good)(request)


def panel_run(out: Path, **typed: Any) -> tuple[Run, ScriptedModel]:
    model = ScriptedModel(script)
    values = {
        "pipeline": "panel",
        "model": "right",
        "base_url": "http://127.0.0.1:9/v1",
        "cache": False,
        **typed,
    }
    assignments = [
        "agents.general_expert.models=right,wrong,dead",
        "agents.specialist.models=wrong",
        "answers=1",
        "engine_vote=on",
        "interpret=on",
    ]
    settings = load_settings(typed=values, assignments=assignments)
    return predict("mini", out=out, settings=settings, scripted=model), model


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return panel_run(tmp_path_factory.mktemp("panel") / "run")[0]


def test_a_run_keeps_every_vote_and_says_who_is_lost(run: Run) -> None:
    record = run.records[0]
    voters = {
        "general expert @ right",
        "general expert @ wrong",
        "answer first @ right",
        "embedded engine",
    }
    assert voters <= set(record.judgements)
    assert "the vote of general expert @ dead is lost (ServerUnavailable)" in record.remarks
    assert run.summary()["answered"] == 3
    assert run.manifest.backends["general_expert"].startswith("right, wrong, dead at ")
    assert run.manifest.backends["embedded engine"].startswith("embedded:")


def test_calibration_learns_whom_to_trust_and_writes_where_that_is_from(
    run: Run, tmp_path: Path
) -> None:
    result = calibrate(run.path, key=ROOT / "data/mini/mini_key.json", out=tmp_path / "c.json")
    weights = result.combiner.weights
    assert weights["general expert @ right"] > 0 > weights["general expert @ wrong"]
    assert result.out_of_fold.f1 > result.unfitted.f1
    provenance = json.loads((tmp_path / "c.json").read_text())["provenance"]
    assert provenance["run"] == run.manifest.run
    assert (provenance["cases"], provenance["data_sha256"]) == (3, run.manifest.data.sha256)


def test_a_fitted_combiner_decides_the_next_run(run: Run, tmp_path: Path) -> None:
    calibrate(run.path, key=ROOT / "data/mini/mini_key.json", out=tmp_path / "c.json")
    fitted, _ = panel_run(tmp_path / "fitted", combiner=tmp_path / "c.json")
    assert fitted.manifest.backends["combiner"].startswith("combiner:")
    for record in fitted.records:
        assert set(record.evidence) == KEYS[record.id].essential


def test_without_a_change_the_same_is_decided(run: Run) -> None:
    result = what_if(run.path, settings_from_run(run.path))
    assert (result.changed, result.cases) == (0, 3)


def test_other_voters_decide_otherwise_without_a_call(run: Run, tmp_path: Path) -> None:
    settings = settings_from_run(run.path, ["voters=general expert @ right", "verify=off"])
    result = what_if(
        run.path, settings, key=ROOT / "data/mini/mini_key.json", out=tmp_path / "other"
    )
    assert result.after is not None
    assert result.after.f1 == 100.0
    assert result.before is not None
    assert result.before.f1 < 100.0
    new_run = Run.open(tmp_path / "other")
    for record in new_run.records:
        assert set(record.evidence) == KEYS[record.id].essential
        assert record.answer is not None
        assert record.answer.cited == KEYS[record.id].essential
        assert record.answer.words <= 75
    scores = score(new_run.path, settings=ScoreSettings(metrics=("strict_micro_f1",))).scores.scores
    assert scores["strict_micro_f1"] == 100.0


def test_a_lower_threshold_finds_more(run: Run) -> None:
    strict, lenient = (
        what_if(
            run.path,
            settings_from_run(
                run.path, [f"threshold={threshold}", "voters=general expert @ right", "verify=off"]
            ),
            key=ROOT / "data/mini/mini_key.json",
        ).after
        for threshold in (0.99, 0.05)
    )
    assert strict is not None
    assert lenient is not None
    assert lenient.recall > strict.recall


def test_what_needs_a_model_cannot_be_changed_afterwards(run: Run) -> None:
    with pytest.raises(
        CallerError, match=r"labels cannot be changed afterwards.\nThese can: threshold, voters"
    ):
        settings_from_run(run.path, ["labels=multiclass"])
    with pytest.raises(CallerError, match="None of the voters is 'nobody'"):
        what_if(run.path, settings_from_run(run.path, ["voters=nobody"]))
    with pytest.raises(InputError):
        what_if(run.path, settings_from_run(run.path, ["combiner=absent.json"]))


def test_a_run_of_the_six_stages_can_be_decided_anew_as_well(tmp_path: Path) -> None:
    run = predict("mini", out=tmp_path / "run", pipeline="embedded")
    result = what_if(
        run.path, settings_from_run(run.path, ["voters=general expert", "operating_point=recall"])
    )
    assert result.voters == ("general expert",)
    assert result.changed > 0


def test_one_panel_run_serves_the_first_three_subtasks_of_2026(run: Run, tmp_path: Path) -> None:
    key, data = ROOT / "data/mini/mini_key.json", ROOT / "data/mini/mini.json"
    for subtask, metric in ((1, "rouge1"), (2, "strict_micro_f1"), (3, "rouge1")):
        name = f"archehr-2026-st{subtask}"
        content = export(run.path, name)
        with zipfile.ZipFile(io.BytesIO(zip_submission(content))) as archive:
            assert archive.namelist() == ["submission.json"]
            rows = json.loads(archive.read("submission.json"))
        assert [set(row) for row in rows] == [{"case_id", "prediction"}] * 3
        (tmp_path / f"{name}.json").write_text(content)
        report = score(
            tmp_path / f"{name}.json",
            task=name,
            key=key,
            data=data,
            settings=ScoreSettings(metrics=(metric,)),
        )
        assert metric in report.scores.scores


def test_evidence_scores_the_same_in_both_years(run: Run, tmp_path: Path) -> None:
    (tmp_path / "st2.json").write_text(export(run.path, "archehr-2026-st2"))
    settings = ScoreSettings(metrics=("strict_micro_f1",))
    key, data = ROOT / "data/mini/mini_key.json", ROOT / "data/mini/mini.json"
    in_2026 = score(
        tmp_path / "st2.json", task="archehr-2026-st2", key=key, data=data, settings=settings
    )
    assert in_2026.scores.scores == score(run.path, key=key, settings=settings).scores.scores


def test_a_run_without_a_question_says_who_has_one(tmp_path: Path) -> None:
    run = predict("mini", out=tmp_path / "run", pipeline="embedded")
    with pytest.raises(
        CallerError,
        match=r"have nothing for archehr-2026-st1.\nRuns of --pipeline panel --set interpret=on",
    ):
        export(run.path, "archehr-2026-st1")


def test_equal_submissions_make_equal_zips() -> None:
    assert zip_submission("[]") == zip_submission("[]")


def test_a_server_that_nobody_defined_is_refused(tmp_path: Path) -> None:
    settings = load_settings(
        typed={"pipeline": "panel"}, assignments=["agents.specialist.models=gpt-4.1,qwen3@vllm"]
    )
    with pytest.raises(CallerError, match="no server 'vllm' for the model 'qwen3@vllm'"):
        predict("mini", out=tmp_path / "run", settings=settings, scripted=ScriptedModel(script))


def test_several_models_are_for_the_panel(tmp_path: Path) -> None:
    settings = load_settings(
        typed={"pipeline": "dmis"}, assignments=["agents.specialist.models=a,b"]
    )
    with pytest.raises(
        CallerError, match=r"one model performs specialist, not several\.\n--pipeline panel"
    ):
        predict("mini", out=tmp_path / "run", settings=settings, scripted=ScriptedModel(script))


def test_models_at_named_servers_are_asked_there_with_their_own_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from archqa.runs.models import model_endpoints

    monkeypatch.setenv("VLLM_KEY", "sk-vllm")
    server_settings = [
        "servers.vllm.base_url=http://127.0.0.1:8/v1",
        "servers.vllm.key_variable=VLLM_KEY",
    ]
    settings = load_settings(
        typed={"api_key": "sk-own"},
        assignments=[*server_settings, "agents.specialist.models=gpt-4.1,qwen3-32b@vllm"],
    )
    own_server, named_server = model_endpoints(settings, "specialist")
    assert (own_server.model, own_server.base_url) == ("gpt-4.1", None)
    assert (named_server.label, named_server.model, named_server.base_url) == (
        "qwen3-32b@vllm",
        "qwen3-32b",
        "http://127.0.0.1:8/v1",
    )
    key = settings.api_key_for(named_server.base_url)
    assert key is not None
    assert key.get_secret_value() == "sk-vllm"
