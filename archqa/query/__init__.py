"""A clinical question as a typed query, and its answer over a record.

    from archqa.query import Query, When, execute
    findings = execute(Query(what="lab", names=("Glucose",), when=When(position="last")), record, patient)

A mind (the embedded parser, or a model) writes the query; `execute` computes the answer and the exact resources it
rests on. `conventions("mimic-ehrsql")` are a benchmark's ways, the default `clinical` is medicine's.
"""

from archqa.query.base import Against, Companion, Query, ValueTest
from archqa.query.chart import Chart, Charts
from archqa.query.conventions import CLINICAL, CONVENTIONS, MIMIC_EHRSQL, Conventions, conventions
from archqa.query.execution import execute
from archqa.query.findings import Answer, Findings
from archqa.query.printing import agent_answer
from archqa.query.problems import CannotExecute
from archqa.query.rows import Row
from archqa.query.scope import Ago, Span, Visit, When
from archqa.query.telling import Claim, Told, tell
from archqa.query.wording import sentence

__all__ = [
    "CLINICAL",
    "CONVENTIONS",
    "MIMIC_EHRSQL",
    "Against",
    "Ago",
    "Answer",
    "CannotExecute",
    "Chart",
    "Charts",
    "Claim",
    "Companion",
    "Conventions",
    "Findings",
    "Query",
    "Row",
    "Span",
    "Told",
    "ValueTest",
    "Visit",
    "When",
    "agent_answer",
    "conventions",
    "execute",
    "sentence",
    "tell",
]
