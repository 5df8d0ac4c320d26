"""A backend of one's own is an object with `run` (and `converse`): archqa checks and records it."""

import json
from pathlib import Path
from typing import Any

import pytest

import archqa
from archqa.agents import Agent, ModelBackend, RunContext
from archqa.agents.agent import CaseTask
from archqa.agents.checked_backend import CheckedBackend
from archqa.agents.context import MedicalContext, MedicalContextAgent
from archqa.agents.engine_backend import EngineBackend
from archqa.core.case import Case, Sentence
from archqa.core.step import Step
from archqa.errors import CallerError, Unusable
from archqa.llm.model import Message, Reply
from archqa.llm.scripted import ScriptedModel
from archqa.runs.plan import Selection
from archqa.runs.settings_check import check_settings_used
from archqa.settings import load_settings
from archqa.tasks.fhir_agentbench.agents import FhirRequestAgent
from archqa.tasks.pipelines import find
from tests.runs.conftest import default_reply


class Engine:
    """The engine inside archqa, as if it were somebody else's."""

    def __init__(self) -> None:
        self.closed = False
        self._engine = EngineBackend()

    async def run(self, agent: Agent[Any, Any], task: Any, context: RunContext) -> Any:
        silent = RunContext(context.backends)
        return await self._engine.run(agent, task, silent)

    async def close(self) -> None:
        self.closed = True


class Mistaken(Engine):
    """Returns what is no output of the agent."""

    async def run(self, agent: Agent[Any, Any], task: Any, context: RunContext) -> Any:
        return CaseTask(case=task.case)


def predict(out: Path, backend: Any, **options: Any) -> archqa.Run:
    return archqa.predict(
        "mini", out=out, backend=backend, selection=Selection(limit=1), **options
    )


def test_an_object_runs_the_pipeline_for_models_and_is_closed(tmp_path: Path) -> None:
    backend = Engine()
    run = predict(tmp_path / "own", backend)
    embedded = archqa.predict(
        "mini", out=tmp_path / "embedded", selection=Selection(limit=1)
    )
    assert run.manifest.pipeline == "dmis"
    assert run.records[0].answer == embedded.records[0].answer
    assert backend.closed
    assert run.manifest.answered_by == (f"Engine of {__name__}.Engine",)
    assert run.manifest.destinations == ("the backend Engine",)
    steps = [json.loads(line) for line in next((run.path / "trace").iterdir()).open()]
    assert {step["backend"] for step in steps} == {"Engine"}
    assert len(steps) == run.summary()["calls"]


def test_a_model_of_ones_own_is_a_backend(tmp_path: Path) -> None:
    model = ScriptedModel(default_reply)
    run = predict(tmp_path / "run", ModelBackend(model, "mine"))
    assert run.summary()["answered"] == 1
    assert model.asked[0].model == "mine"
    assert run.summary()["calls"] == len(model.asked)


def test_an_output_of_another_type_is_refused_and_traced(tmp_path: Path) -> None:
    run = predict(tmp_path / "run", Mistaken())
    assert run.summary()["failed"] == 1
    first, *_ = next((run.path / "trace").iterdir()).read_text().splitlines()
    reason = "the backend Mistaken returned CaseTask; it should be MedicalContext"
    assert json.loads(first)["rejected"] == reason


async def test_an_output_that_fails_the_agents_check_is_refused_and_traced() -> None:
    class Empty(Engine):
        async def run(
            self, agent: Agent[Any, Any], task: Any, context: RunContext
        ) -> Any:
            return MedicalContext(context=" ")

    steps: list[Step] = []
    task = CaseTask(
        case=Case(id="1", sentences=(Sentence(id="1", text="She was well."),))
    )
    with pytest.raises(Unusable, match="fails its check"):
        await CheckedBackend(Empty(), "empty").run(
            MedicalContextAgent(), task, RunContext({}, steps.append)
        )
    assert "context is empty" in steps[0].rejected


@pytest.mark.parametrize("backend", [object(), Engine, "nobody"])
def test_what_is_no_backend_is_refused_before_anything_is_written(
    tmp_path: Path, backend: object
) -> None:
    with pytest.raises(CallerError, match="backend"):
        predict(tmp_path / "run", backend)
    assert not (tmp_path / "run").exists()


def test_a_spending_limit_that_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CallerError, match="max_cost"):
        predict(tmp_path / "run", Engine(), max_cost=1)


async def test_its_turns_of_a_conversation_are_recorded() -> None:
    class Talker(Engine):
        async def converse(self, *arguments: Any) -> Reply:
            return Reply(text="Hello.")

    steps: list[Step] = []
    agent: Any = FhirRequestAgent()
    context = RunContext({}, steps.append)
    messages = (Message(role="user", content="a"), Message(role="user", content="b"))
    checked = CheckedBackend(Talker(), "talker")
    reply = await checked.converse(agent, None, context, messages, (), 1)
    assert (reply.text, steps[0].reply) == ("Hello.", "Hello.")
    assert [message["content"] for message in steps[0].messages] == ["b"]


async def test_one_that_cannot_converse_says_so() -> None:
    agent: Any = FhirRequestAgent()
    with pytest.raises(Unusable, match="cannot converse"):
        await CheckedBackend(Engine(), "engine").converse(
            agent, None, RunContext({}), ()
        )


def test_a_folder_that_somebody_handed_over_chooses_no_backend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "archqa.toml").write_text('backend = "model"\n')
    monkeypatch.chdir(tmp_path)
    ignored: list[str] = []
    assert load_settings(on_ignored=ignored.append).backend is None
    assert "backend" in ignored[0]


def test_a_short_name_that_an_unnamed_plug_in_has_too_is_not_lost_silently() -> None:
    settings = load_settings(typed={"labels": "multiclass"})
    of_plug_in = find("dmis")._replace(name="other", tasks=("archehr-2025",))
    with pytest.raises(CallerError, match=r"pipelines\.other\.labels"):
        settings.for_pipeline(of_plug_in)


def test_backend_is_refused_for_a_pipeline_without_agents() -> None:
    settings = load_settings(typed={"backend": "embedded"})
    with pytest.raises(CallerError, match="backend: other does not use it"):
        check_settings_used(settings, find("dmis")._replace(name="other", agents=()))
