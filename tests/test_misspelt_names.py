"""A misspelt name at every door that takes one: each error says what was probably meant."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import archqa
from archqa import tasks
from archqa.core.near_misses import did_you_mean, near_misses, unknown_name
from archqa.errors import ArchqaError
from archqa.settings import load_settings
from tests.cli.test_commands import archqa as run_command


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "mini"
    return archqa.predict("mini", out=folder).path


COMMANDS = {
    "a command": (["scroe", "RUN"], "score"),
    "a command of a group": (["cache", "inof"], "info"),
    "an option": (["predict", "mini", "--modle", "m"], "--model"),
    "a task": (["predict", "mini", "--task", "archer-2025"], "archehr-2025"),
    "a task to score": (["score", "RUN", "--task", "medagentbnch"], "medagentbench"),
    "a pipeline": (["predict", "mini", "--pipeline", "dmsi"], "dmis"),
    "an operating point": (
        ["predict", "mini", "--operating-point", "percision"],
        "precision",
    ),
    "a runner": (["predict", "mini", "--runner", "lokal"], "local"),
    "a case to run": (["predict", "mini", "--case", "255"], "25"),
    "a bundled file": (["predict", "data/dev.jsno"], "data/dev.json"),
    "a setting": (["predict", "mini", "--set", "lables=multiclass"], "labels"),
    "a setting in full": (["predict", "mini", "--set", "limits.job=2"], "jobs"),
    "the value of a setting": (
        ["predict", "mini", "--set", "labels=multiclas"],
        "multiclass",
    ),
    "a pipeline's section": (
        ["predict", "mini", "--set", "pipelines.dmsi.labels=x"],
        "dmis",
    ),
    "an agent": (["predict", "mini", "--set", "agents.decison.model=m"], "decision"),
    "an agent's setting": (
        ["predict", "mini", "--set", "agents.decision.modle=m"],
        "model",
    ),
    "a prompt version": (
        [
            *("predict", "mini", "--pipeline", "dmis", "--model", "m"),
            *("--set", "agents.decision.prompt=decision/v22"),
        ],
        "decision/v2",
    ),
    "a kind of list": (["list", "pipeline"], "pipelines"),
    "a pipeline to list": (["list", "settings", "--pipeline", "dmsi"], "dmis"),
    "a metric": (["score", "RUN", "--metric", "strict_mirco_f1"], "strict_micro_f1"),
    "a metric's setting": (
        ["score", "RUN", "--metric", "bleu(max_ordr=2)"],
        "max_order",
    ),
    "a grading": (["score", "RUN", "--grading", "clincal"], "clinical"),
    "a paired test": (
        ["compare", "RUN", "RUN", "--method", "paired-bootstap"],
        "paired-bootstrap",
    ),
    "a format": (["export", "RUN", "--format", "cvs"], "csv"),
    "a case to show": (["show", "RUN", "255"], "25"),
    "a section of a brief": (
        *(["brief", "--patient", "1", "--record", "no.db", "--sections", "medicnes"],),
        "medicines",
    ),
    "a form of a brief": (
        *(["brief", "--patient", "1", "--record", "no.db", "--format", "htlm"],),
        "html",
    ),
    "a profile": (["fhir", "serve", "no.db", "--profile", "hapy"], "hapi"),
    "what happens to writes": (["fhir", "serve", "no.db", "--writes", "aply"], "apply"),
}
"""What is misspelt: the command, and the name that was meant."""


@pytest.mark.parametrize("what", COMMANDS)
def test_a_command_says_what_a_misspelt_name_was_meant_to_be(
    what: str, run: Path
) -> None:
    arguments, meant = COMMANDS[what]
    result = run_command(*(str(run) if each == "RUN" else each for each in arguments))
    message = " ".join(result.stderr.replace("│", " ").split())
    assert result.returncode in {2, 3}, message
    nearest = (
        f"id you mean {meant}",
        f"id you mean '{meant}'",
        f"Possible options: {meant}",
    )
    assert any(each in message for each in nearest), message


FUNCTIONS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a task": (lambda _: archqa.load_cases("mini", task="archer-2025"), "archehr-2025"),
    "a setting": (lambda _: load_settings(typed={"pipline": "dmis"}), "pipeline"),
    "a pipeline": (lambda _: archqa.predict("mini", pipeline="embeded"), "embedded"),
    "a case": (lambda run: archqa.show_case(run, "255"), "25"),
    "a score": (
        lambda run: archqa.score(run, keep=False)["strict_mirco_f1"],
        "strict_micro_f1",
    ),
    "a column of cases": (
        lambda _: archqa.predict([{"question": "Why?", "not": "He fell."}]),
        "note",
    ),
    "a column of questions": (
        lambda _: archqa.ask_many([{"quesion": "Why?", "note": "He fell."}]),
        "question",
    ),
}


@pytest.mark.parametrize("what", FUNCTIONS)
def test_a_function_says_what_a_misspelt_name_was_meant_to_be(
    what: str, run: Path
) -> None:
    call, meant = FUNCTIONS[what]
    with pytest.raises((ArchqaError, KeyError)) as raised:
        call(run)
    assert f"id you mean {meant}?" in str(raised.value)


def test_a_misspelt_label_of_a_key_is_named(tmp_path: Path) -> None:
    answers = [{"sentence_id": "1", "relevance": "esential"}]
    key = tmp_path / "key.json"
    key.write_text(json.dumps([{"case_id": "1", "answers": answers}]))
    with pytest.raises(ArchqaError, match="did you mean essential"):
        tasks.load_key(key)


def test_names_are_similar_without_regard_to_case() -> None:
    assert near_misses("EMBEDED", ["dmis", "Embedded"]) == ["Embedded"]


def test_nothing_is_suggested_where_nothing_is_similar() -> None:
    assert did_you_mean("xyz", ["dmis", "embedded"]) == ""
    assert str(unknown_name("pipeline", "xyz", ["dmis"])).endswith("\nThere are: dmis.")


def test_two_similar_names_are_both_suggested() -> None:
    assert did_you_mean(
        "v3", ["v1", "v2", "other"], count=2, min_similarity=0.5
    ).startswith("Did you mean v")


def test_a_long_text_in_the_place_of_a_name_is_not_quoted() -> None:
    text = "Mr Smith has chest pain. " * 100
    assert "Smith" not in str(unknown_name("pipeline", text, ["dmis"]))
