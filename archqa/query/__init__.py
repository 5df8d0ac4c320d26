"""A clinical question as a typed query, and its answer from a record.

    from archqa.query import Query, When, execute
    query = Query(what="lab", names=("Glucose",), when=When(position="last"))
    result = execute(query, record, patient)

The embedded parser or a model writes the query; `execute` computes the answer and the exact
resources that support it. `get_conventions("mimic-ehrsql")` are those of a benchmark; the default
`clinical` is what a clinician would expect.
"""

from archqa.query.conventions import (
    CLINICAL,
    CONVENTIONS,
    MIMIC_EHRSQL,
    Conventions,
    get_conventions,
)
from archqa.query.execution.chart import Chart, ChartCache
from archqa.query.execution.executor import execute
from archqa.query.execution.findings import Answer, QueryResult
from archqa.query.execution.rows import Row
from archqa.query.model import Against, CannotExecute, Companion, Query, ValueTest
from archqa.query.scope import Ago, Span, Visit, When
from archqa.query.wording.queries import query_text
from archqa.query.wording.summaries import format_agent_answer

__all__ = [
    "CLINICAL",
    "CONVENTIONS",
    "MIMIC_EHRSQL",
    "Against",
    "Ago",
    "Answer",
    "CannotExecute",
    "Chart",
    "ChartCache",
    "Companion",
    "Conventions",
    "Query",
    "QueryResult",
    "Row",
    "Span",
    "ValueTest",
    "Visit",
    "When",
    "execute",
    "format_agent_answer",
    "get_conventions",
    "query_text",
]
