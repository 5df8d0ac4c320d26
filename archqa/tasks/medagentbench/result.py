"""The result of a MedAgentBench task: its conversation, and the resources read and written."""

from typing import Any

from archqa.core.result import TaskResult, reference_names


class ConversationResult(TaskResult):
    """A conversation as the benchmark keeps it, with the agent's explanation.

    `result` is the text between the brackets of FINISH( ), None if the agent did not finish.
    `cited` and `retrieved` map resource types to ids; `written` are the attempts to write;
    `why_not` are remarks on what failed.
    """

    status: str = ""
    result: str | None = None
    history: tuple[dict[str, Any], ...] = ()
    explanation: str = ""
    cited: dict[str, tuple[str, ...]] = {}
    retrieved: dict[str, tuple[str, ...]] = {}
    written: tuple[dict[str, Any], ...] = ()
    why_not: tuple[str, ...] = ()

    @property
    def answer_text(self) -> str | None:
        """The text between the brackets of FINISH( )."""
        return self.result

    @property
    def cited_resources(self) -> tuple[str, ...]:
        """The cited resources as `Type/id`."""
        return reference_names(self.cited)
