"""The planner: turns a question about a record into a typed query, which the executor runs.

Run by a model, it may first look up words among the record's codes, and it is told why a query
failed. Run by the parser inside archqa (`GrammarBackend`), it writes the query at once, or says
what it does not understand.
"""

from pydantic import Field

from archqa.agents.agent import Agent, Rejected
from archqa.core.value import FrozenModel
from archqa.query import Query

MAX_LOOKUPS = 8
"""Names that may be looked up in one turn."""


class LookupResult(FrozenModel):
    """What looking a word up gave: `type element system code "display" (count)`, a line each."""

    words: str
    lines: tuple[str, ...] = ()


class QueryAttempt(FrozenModel):
    """A query that was carried out or could not be, and what came of it."""

    query: str
    outcome: str


class PlannerTask(FrozenModel):
    """A question, and what is known by now of the record and of earlier attempts."""

    question: str
    patient_fhir_id: str = ""
    assumption: str = ""
    card: str = ""
    found: tuple[LookupResult, ...] = ()
    tried: tuple[QueryAttempt, ...] = ()
    last_turn: bool = False


class Plan(FrozenModel):
    """What to do next: look words up among the codes of the record, or carry out a query."""

    thought: str = Field(
        default="", description="In a sentence or two: what is asked, and what is still unclear."
    )
    look_up: tuple[str, ...] = Field(
        default=(),
        max_length=MAX_LOOKUPS,
        description="Names to look up in this patient's record; empty with a query.",
    )
    query: Query | None = Field(
        default=None, description="The query; null while something is looked up."
    )


class PlannerAgent(Agent[PlannerTask, Plan]):
    """Writes the query; never computes."""

    name = "planner"
    prompt = "planner/v1"
    task_type = PlannerTask
    output_type = Plan

    def check(self, task: PlannerTask, output: Plan) -> None:
        """The plan has names to look up or a query, not both; on the last turn a query."""
        if (output.query is None) == (not output.look_up):
            raise Rejected("Give either words in look_up or a query, and not both.")
        if output.query is None and task.last_turn:
            raise Rejected("Nothing more can be looked up. Give the query that fits best.")
