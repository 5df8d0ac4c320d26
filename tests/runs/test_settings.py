"""Settings: nested by owner, typed by short or full name, refused where they have no effect."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import archqa
from archqa.agents.registry import AGENT_NAMES
from archqa.asking.proposed_reading import READING_CHECK
from archqa.errors import CallerError
from archqa.runs.plan import Selection, plan_run
from archqa.runs.predict import predict
from archqa.runs.ray.worker import WorkerConfig
from archqa.runs.run import Run
from archqa.runs.settings_check import check_settings_used
from archqa.settings import Settings, load_settings
from archqa.settings.catalogue import describe_settings
from archqa.settings.sources import RUN_SHORT_NAMES, full_names
from archqa.tasks.archehr_2025.settings import DmisSettings, EmbeddedSettings
from archqa.tasks.pipelines import all_pipelines, find
from archqa.tasks.settings import pipeline_sections
from tests.cli.test_commands import archqa as command


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("jobs=3", "limits.jobs=3"),
        ("max_cost=1.5", "limits.max_cost=1.5"),
        ("tries=2", "retries.tries=2"),
        ("cache=off", "cache.enabled=off"),
        ("cache_gib=2", "cache.gib=2"),
        ("ray_address=auto", "ray.address=auto"),
        ("operating_point=recall", "pipelines.embedded.operating_point=recall"),
        ("writes=validate", "pipelines.paper.writes=validate"),
    ],
)
def test_a_short_and_a_full_name_set_the_same(short: str, full: str) -> None:
    changed = load_settings(assignments=[full])
    assert changed != load_settings()
    of_short = load_settings(assignments=[short]).without_secrets()
    of_full = changed.without_secrets()
    if short.startswith("writes"):
        of_short, of_full = (each["pipelines"]["paper"] for each in (of_short, of_full))
    assert of_short == of_full


def test_every_pipeline_gets_its_own_type_from_a_short_name() -> None:
    settings = load_settings(assignments=["labels=multiclass", "word_limit=60"])
    for name, settings_type in (
        ("dmis", DmisSettings), ("embedded", EmbeddedSettings),
    ):  # fmt: skip
        own = settings.for_pipeline(find(name))
        assert type(own) is settings_type
        assert own.model_dump(include={"labels", "word_limit"}) == {
            "labels": "multiclass",
            "word_limit": 60,
        }


def test_what_is_typed_wins_over_the_environment_and_that_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "archqa.toml"
    file.write_text(
        'jobs = 2\nrequests_per_minute = 500\ncache_dir = "/tmp/replies"\nlabels = "multiclass"\n'
        "[pipelines.dmis]\nbatch_size = 5\nmost_experts = 3\nword_limit = 60\n"
        '[agents.decision]\nbackend = "embedded"\n'
    )
    monkeypatch.setenv("ARCHQA_JOBS", "4")
    monkeypatch.setenv("ARCHQA_PIPELINES__DMIS__MOST_EXPERTS", "6")
    monkeypatch.setenv("ARCHQA_PIPELINES__MULTI_TURN_RETRIEVER__ITERATIONS", "7")
    monkeypatch.setenv("ARCHQA_AGENTS__DECISION__MODEL", "o3")
    monkeypatch.setenv("ARCHQA_CACHE", "off")
    monkeypatch.setenv("ARCHQA_CHROMIUM", "/usr/bin/chromium")
    settings = load_settings(file, {"batch_size": 7}, ["labels=binary"])
    dmis = settings.for_pipeline(find("dmis"))
    assert isinstance(dmis, DmisSettings)
    assert (dmis.batch_size, dmis.most_experts, dmis.word_limit) == (7, 6, 60)
    assert dmis.labels == "binary"
    assert (settings.limits.jobs, settings.limits.requests_per_minute) == (4, 500)
    assert (settings.cache.enabled, settings.cache.dir) == (False, Path("/tmp/replies"))
    assert settings.agent("decision").backend == "embedded"
    assert settings.agent("decision").model == "o3"
    multi_turn = settings.for_pipeline(find("multi-turn-retriever", "fhir-agentbench"))
    assert multi_turn.model_dump()["iterations"] == 7


def test_a_full_name_in_a_file_takes_precedence_over_a_short_one(
    tmp_path: Path,
) -> None:
    file = tmp_path / "archqa.toml"
    file.write_text("word_limit = 60\n[pipelines.embedded]\nword_limit = 50\n")
    settings = load_settings(file)
    limits = {
        name: settings.for_pipeline(find(name)).model_dump()
        for name in ("embedded", "dmis")
    }
    assert {name: own["word_limit"] for name, own in limits.items()} == {
        "embedded": 50,
        "dmis": 60,
    }


def test_the_last_assignment_wins() -> None:
    assert (
        load_settings(None, {"jobs": 2}, ["limits.jobs=3", "jobs=4"]).limits.jobs == 4
    )


@pytest.mark.parametrize(
    ("assignment", "meant"),
    [
        ("agents.context.modle=m", "model"),
        ("prices.mine.promt=1", "prompt"),
        ("limits.jbs=3", "jobs"),
    ],
)
def test_an_unknown_nested_setting_comes_with_a_suggestion(
    assignment: str, meant: str
) -> None:
    with pytest.raises(
        CallerError, match=f"there is no such setting; did you mean {meant}"
    ):
        load_settings(assignments=[assignment])


def test_all_invalid_settings_are_named_at_once_with_what_was_meant() -> None:
    wrong = [
        "lables=binary",
        "limits.job=2",
        "batch_size=many",
        "agents.nobody.model=x",
    ]
    with pytest.raises(CallerError) as caught:
        load_settings(assignments=[*wrong, "pipelines.dmis.sreen=batched"])
    message = str(caught.value)
    assert message.startswith("Invalid settings:\n")
    assert "lables: there is no such setting; did you mean labels?" in message
    assert "limits.job: there is no such setting; did you mean jobs?" in message
    assert "pipelines.dmis.sreen" in message.replace("sreen:", "pipelines.dmis.sreen:")
    assert "did you mean screen?" in message
    assert message.count("batch_size: ") == 1


def test_a_wrong_value_of_a_short_name_is_reported_once() -> None:
    with pytest.raises(CallerError) as caught:
        load_settings(assignments=["labels=five"])
    assert str(caught.value).count("labels") == 1


def test_typed_settings_without_effect_are_refused_all_at_once() -> None:
    with pytest.raises(CallerError) as caught:
        predict(
            "mini", pipeline="dmis", writes="apply", rounds=7, operating_point="recall"
        )
    message = str(caught.value)
    assert message.startswith("Invalid settings:\n")
    assert (
        "operating_point: dmis does not use it. Pipelines that use it: embedded."
        in message
    )
    assert (
        "rounds: dmis does not use it. Pipelines that use it: paper (medagentbench)"
        in message
    )
    assert "writes: dmis does not use it." in message
    assert "paper (medagentbench), typed (medagentbench)" in message


@pytest.mark.parametrize(
    ("assignment", "problem"),
    [
        ("pipelines.dmis.screen=batched", "Pipelines that use it: dmis."),
        (
            "agents.planner.model=x",
            "embedded (archehr-2025) has no such agent. Pipelines that have it: planner",
        ),
    ],
)
def test_settings_of_another_pipeline_or_agent_are_refused(
    assignment: str, problem: str
) -> None:
    settings = load_settings(None, {"pipeline": "embedded"}, [assignment])
    with pytest.raises(CallerError) as caught:
        plan_run("mini", None, Selection(), settings)
    assert problem in str(caught.value)


def test_the_command_line_refuses_them_with_exit_code_2(tmp_path: Path) -> None:
    done = command(
        "predict", "mini", "--set", "writes=apply", "--set", "rounds=7", cwd=tmp_path
    )
    assert done.returncode == 2
    assert "writes: embedded does not use it" in done.stderr
    assert "rounds: embedded does not use it" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_an_operating_point_changes_what_the_engine_selects(tmp_path: Path) -> None:
    counts = []
    for point in ("precision", "f1", "recall"):
        folder = tmp_path / point
        done = command(
            "predict", "mini", "--operating-point", point, "--out", str(folder)
        )
        assert done.returncode == 0, done.stderr
        counts.append(sum(len(record.evidence) for record in Run.open(folder).records))
    assert counts[0] < counts[1] < counts[2]


@pytest.mark.parametrize(
    "task", ["archehr-2025", "archehr-2026-st2", "archehr-2026-st3"]
)
def test_an_operating_point_without_the_engine_is_an_error_that_names_who_has_one(
    task: str, tmp_path: Path
) -> None:
    words = ("--task", task, "--model", "m", "--operating-point", "recall")
    done = command("predict", "mini", *words, cwd=tmp_path)
    assert done.returncode == 2
    problem = "operating_point: dmis does not use it. Pipelines that use it: embedded."
    assert problem in done.stderr


def test_a_pipeline_of_the_same_name_for_another_task_is_told_apart(
    tmp_path: Path,
) -> None:
    words = ("--task", "archehr-2026-st1", "--operating-point", "recall")
    done = command("predict", "mini", *words, cwd=tmp_path)
    assert done.returncode == 2
    problem = (
        "operating_point: embedded (archehr-2026-st1) does not use it. "
        "Pipelines that use it: embedded (archehr-2025)."
    )
    assert problem in " ".join(done.stderr.split())


def test_a_file_and_the_environment_may_hold_settings_of_other_pipelines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "archqa.toml"
    file.write_text("[pipelines.dmis]\nbatch_size = 6\n[agents.planner]\nturns = 2\n")
    monkeypatch.setenv("ARCHQA_ROUNDS", "7")
    settings = load_settings(file, {"pipeline": "embedded"})
    check_settings_used(settings, find("embedded"))


def test_settings_and_keywords_together_are_refused() -> None:
    with pytest.raises(CallerError, match="labels"):
        predict("mini", settings=load_settings(), labels="multiclass")


def test_a_run_keeps_the_settings_of_its_own_pipeline_and_no_secret(
    tmp_path: Path,
) -> None:
    typed = {
        "pipeline": "embedded",
        "labels": "multiclass",
        "cache_url": "postgresql://u:geheim@h/d",
    }
    run = predict("mini", out=tmp_path / "run", settings=load_settings(typed=typed))
    settings = run.manifest.settings
    assert settings["pipelines"] == {
        "embedded": EmbeddedSettings(labels="multiclass").model_dump(mode="json")
    }
    assert settings["limits"]["jobs"] == 8
    text = (run.path / "run.json").read_text()
    assert "geheim" not in text
    assert "api_key" not in text


def test_a_run_from_before_the_first_release_is_refused_with_the_reason(
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    predict("mini", out=out, pipeline="embedded")
    manifest = json.loads((out / "run.json").read_text())
    manifest["backends"] = dict.fromkeys(
        manifest["backends"], "gpt-4.1 at api.openai.com"
    )
    (out / "run.json").write_text(json.dumps(manifest))
    for words in (["show"], ["score"], ["export", "--format", "csv"]):
        result = command(*words, str(out))
        assert result.returncode == 3
        assert "was written by an archqa before its first release" in result.stderr


def test_a_worker_of_a_cluster_gets_the_same_settings(tmp_path: Path) -> None:
    typed = {
        "labels": "multiclass",
        "cache_url": "postgresql://u:p@h/d",
        "api_key": "k",
        "jobs": 9,
    }
    settings = load_settings(
        typed=typed, assignments=["agents.decision.backend=embedded"]
    )
    manifest = predict("mini", out=tmp_path / "run", pipeline="embedded").manifest
    config = WorkerConfig.of(manifest, settings, 2)
    assert "u:p" not in json.dumps(config.settings)
    at_worker = Settings(**config.settings, **config.secrets).replace(jobs=config.jobs)
    expected = settings.replace(jobs=2)
    assert at_worker.model_dump() == expected.model_dump()


def test_the_settings_of_every_pipeline_are_in_the_registry() -> None:
    # That of questions to a record has settings, and runs no cases.
    pipelines = (*all_pipelines(), READING_CHECK)
    for pipeline in pipelines:
        fields = set(pipeline.settings_type.model_fields)
        section = pipeline_sections().get(pipeline.name)
        assert fields <= set(section.model_fields if section else ())
    for name, section in pipeline_sections().items():
        types = [each.settings_type for each in pipelines if each.name == name]
        used = {field for each in types for field in each.model_fields}
        assert set(section.model_fields) == used


def test_short_names_are_unambiguous() -> None:
    for name in RUN_SHORT_NAMES:
        assert not any(
            name in section.model_fields for section in pipeline_sections().values()
        )
    for section in pipeline_sections().values():
        assert not set(section.model_fields) & set(Settings.model_fields)
        assert all(full_names(name) for name in section.model_fields)


def test_every_setting_is_described() -> None:
    settings = describe_settings()
    assert [setting.name for setting in settings if not setting.description] == []
    of_dmis = {setting.short_name for setting in settings if "dmis" in setting.owners}
    assert of_dmis == set(DmisSettings.model_fields)


def test_list_settings_shows_type_default_description_and_owner() -> None:
    lines = command("list", "settings").stdout.replace("\n", " ")
    assert "limits.jobs (jobs): integer [default: 8]" in lines
    embedded = command("list", "settings", "--pipeline", "embedded")
    assert (
        "pipelines.embedded.operating_point (operating_point): f1 | precision"
        in embedded.stdout
    )
    assert "(writes)" not in embedded.stdout
    assert command("list", "settings", "--pipeline", "nope").returncode == 2


def test_agents_are_those_of_the_pipelines() -> None:
    assert {"decision", "planner", "clinical_typed"} <= set(AGENT_NAMES)
    for pipeline in all_pipelines():
        assert set(pipeline.agents) <= set(AGENT_NAMES)


def test_settings_are_imported_without_slow_libraries() -> None:
    slow = (
        "numpy",
        "onnxruntime",
        "aiohttp",
        "openai",
        "pandas",
        "lxml",
        "httpx2",
        "archqa.fhir",
    )
    code = (
        f"import archqa.settings, sys; print([m for m in {slow} if m in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(archqa.__file__).parent.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_the_package_shows_its_public_names_alone() -> None:
    names = [
        "Answer", "Brief", "Run", "Thread", "__version__", "ask", "ask_many", "brief", "compare",
        "fhir", "load_cases", "predict", "score", "show_case",
    ]  # fmt: skip
    assert dir(archqa) == names
    for name in names:
        assert getattr(archqa, name) is not None


def test_the_engine_keeps_the_four_specialists_that_its_figures_are_of() -> None:
    assert (EmbeddedSettings().most_experts, DmisSettings().most_experts) == (4, 2)
