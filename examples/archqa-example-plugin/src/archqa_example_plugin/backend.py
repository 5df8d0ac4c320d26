"""A backend: what runs agents. This one asks no model; it copies the sentence with the most shared words."""

from typing import Any

from archqa.agents import Agent, RunContext, SingleReplyBackend
from archqa.errors import Unusable
from archqa_example_plugin.agent import PlainAnswer, PlainAnswerAgent


class SharedWords(SingleReplyBackend):
    """Answers with the sentence of the note that shares most words with the question.

    `SingleReplyBackend` refuses conversations; a backend that can converse has `converse` as well.
    archqa calls an entry point with the settings of the run, and closes it with `close()`, if it
    has that. To bring a chat model, write its `ask` and subclass `archqa.agents.ModelBackend`.
    """

    def __init__(self, settings: object = None) -> None:
        self.settings = settings

    async def run(self, agent: Agent[Any, Any], task: Any, context: RunContext) -> Any:
        """The output of one agent, of the agent's output type; archqa checks and records it."""
        if not isinstance(agent, PlainAnswerAgent):
            raise Unusable(f"SharedWords cannot run the agent {agent.name}.")
        case = task.case
        question = set(
            f"{case.clinician_question} {case.patient_narrative}".lower().split()
        )
        best = max(
            case.sentences, key=lambda sentence: len(question & _words(sentence.text))
        )
        return PlainAnswer(answer=best.text, sentence_id=best.id)


def _words(text: str) -> set[str]:
    return set(text.lower().split())
