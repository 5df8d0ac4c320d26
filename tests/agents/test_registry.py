"""The registry names every agent that the settings can configure, and imports none of them."""

import subprocess
import sys

import pytest

from archqa.agents.labelling import Verdict
from archqa.agents.registry import AGENT_NAMES, load_agents
from archqa.llm.structured import strict_schema
from archqa.tasks.pipelines import all_pipelines


@pytest.mark.parametrize("name", AGENT_NAMES)
def test_every_class_of_a_name_has_that_name(name: str) -> None:
    classes = load_agents(name)
    assert {agent_class.name for agent_class in classes} == {name}


def test_every_agent_and_prompt_of_a_pipeline_is_registered() -> None:
    prompts = {
        agent_class.prompt for name in AGENT_NAMES for agent_class in load_agents(name)
    }
    for pipeline in all_pipelines():
        assert set(pipeline.agents) <= set(AGENT_NAMES)
        assert set(pipeline.prompts) <= prompts


def test_reading_the_names_imports_no_agent() -> None:
    code = (
        "import sys; from archqa.agents.registry import AGENT_NAMES; "
        "print(sorted(name for name in sys.modules if name.startswith('archqa.agents')))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert printed.strip() == "['archqa.agents', 'archqa.agents.registry']"


def test_the_labels_are_described_to_models_as_released() -> None:
    """A model sees the description, and a changed schema is another key of the reply cache."""
    schema = strict_schema(Verdict)
    assert schema["$defs"]["Relevance"]["description"] == (
        "The shared task's three labels (ArchEHR-QA 2025 key). "
        "A binary agent uses the first and the last."
    )
