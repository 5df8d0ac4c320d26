"""The planner: turns a question about a record into typed queries, which the executor runs.

Run by a model, it may first look up words among the patient's rows, and it is told why a query
failed. Where no query expresses the question it says so, or that the question asks for a judgement.
Run by the parser inside archqa (`GrammarBackend`), it writes one query at once, or says what it
does not understand.
"""

from typing import Any

from pydantic import Field, model_validator

from archqa.agents.agent import Agent, Rejected
from archqa.core.value import FrozenModel
from archqa.llm.structured import sparse_schema
from archqa.query import CannotExecute, Query
from archqa.query.execution.named_rows import with_concept_names
from archqa.query.questions.everyday.declining import judgement_reasons

MAX_LOOKUPS = 8
"""Names that may be looked up in one turn."""

MOST_QUERIES = 3
"""Queries of one question at most; a task may allow fewer."""


class LookupResult(FrozenModel):
    """What looking a word up gave: `lab "Glucose" (34 rows, 2150-01-01 to 2150-03-02)`, a line each."""

    words: str
    lines: tuple[str, ...] = ()


class QueryAttempt(FrozenModel):
    """A query that was carried out or could not be, and what came of it."""

    query: str
    outcome: str


class PlannerTask(FrozenModel):
    """A question, and what is known by now of the record and of earlier attempts.

    `everyday`: a person asks, with concepts and states; else a benchmark, with the record's names.
    `leaves_out_later_rows`: queries leave out what is dated after the time of the question.
    """

    question: str
    patient_fhir_id: str = ""
    assumption: str = ""
    card: str = ""
    found: tuple[LookupResult, ...] = ()
    tried: tuple[QueryAttempt, ...] = ()
    last_turn: bool = False
    everyday: bool = False
    most_queries: int = Field(default=1, ge=1, le=MOST_QUERIES)
    leaves_out_later_rows: bool = False
    concepts: tuple[str, ...] = ()
    judgements: tuple[str, ...] = Field(
        default_factory=lambda: tuple(judgement_reasons())
    )


class Judgement(FrozenModel):
    """A judgement or prediction that is asked for, and queries for facts related to it."""

    kind: str
    related: tuple[Query, ...] = Field(default=(), max_length=MOST_QUERIES)


class Plan(FrozenModel):
    """What to do next: look words up, carry out queries, hand over, or decline."""

    thought: str = ""
    look_up: tuple[str, ...] = Field(default=(), max_length=MAX_LOOKUPS)
    queries: tuple[Query, ...] = Field(default=(), max_length=MOST_QUERIES)
    not_in_language: str = ""
    declined: Judgement | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_null_as_absent(cls, fields: Any) -> Any:
        """Models write null for what they leave out, anywhere in a query."""
        return _without_nulls(fields)


def _without_nulls(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_nulls(child) for child in node]
    if not isinstance(node, dict):
        return node
    return {
        name: _without_nulls(child) for name, child in node.items() if child is not None
    }


class PlannerAgent(Agent[PlannerTask, Plan]):
    """Writes the queries; never computes."""

    name = "planner"
    prompt = "planner/v4"
    task_type = PlannerTask
    output_type = Plan

    def output_schema(self, task: PlannerTask) -> dict[str, Any]:
        """The schema of a plan without what the prompt explains: it goes along with each call."""
        return sparse_schema(Plan)

    def check(self, task: PlannerTask, output: Plan) -> None:
        """The plan does one thing; on the last turn it looks nothing up. Its concepts are known."""
        actions = (
            output.look_up,
            output.queries,
            output.not_in_language,
            output.declined,
        )
        if sum(map(bool, actions)) != 1:
            raise Rejected(
                "Give exactly one of look_up, queries, not_in_language and declined; "
                "leave the others empty or null."
            )
        if output.look_up and task.last_turn:
            raise Rejected(
                "Nothing more can be looked up. Give the query that fits best, or not_in_language."
            )
        if len(output.queries) > task.most_queries:
            raise Rejected(f"Give at most {task.most_queries} in queries.")
        if output.declined and not task.everyday:
            raise Rejected(
                "This question is not declined. Give a query, or not_in_language."
            )
        if output.declined and output.declined.kind not in judgement_reasons():
            raise Rejected(f"declined.kind is one of {', '.join(judgement_reasons())}.")
        related = output.declined.related if output.declined else ()
        problems = []
        for query in (*output.queries, *related):
            try:
                with_concept_names(query)
            except CannotExecute as problem:
                problems.append(str(problem))
        if problems:
            raise Rejected("\n".join(problems))
