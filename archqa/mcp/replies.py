"""What the tools return; their JSON schemas are the output schemas of the protocol."""

from typing import Any

from archqa.asking.answer import AnsweredBy, AnswerLine, Evidence
from archqa.briefing.brief import BriefSection
from archqa.core.value import FrozenModel


class FoundNotes(FrozenModel):
    """Sentences of a patient's notes, the best first; `id` is what answers cite."""

    patient: dict[str, str]
    sentences: tuple[Evidence, ...]
    remarks: tuple[str, ...] = ()


class FoundResources(FrozenModel):
    """One page of a search. `next` is the search for the following page.

    `ids` are those of `resources`, as `Type/id`; `included` is what `_include` added.
    """

    query: str
    total: int | None
    ids: tuple[str, ...]
    resources: tuple[dict[str, Any], ...]
    included: tuple[dict[str, Any], ...] = ()
    next: str | None = None
    remarks: tuple[str, ...] = ()


class FoundResource(FrozenModel):
    """One resource as the record has it."""

    id: str
    resource: dict[str, Any]


class QueryRow(FrozenModel):
    """A row that passes the query's limits; the answer rests on the `chosen` ones.

    `evidence` are the resources that hold it. Times are as in the record.
    """

    evidence: tuple[str, ...]
    name: str
    time: str = ""
    end: str = ""
    value: float | None = None
    unit: str = ""
    text: str = ""
    facts: dict[str, tuple[str, ...]] = {}
    chosen: bool = False


class AnsweredQuery(FrozenModel):
    """One typed query, in words and in its own language, with what it found."""

    read_as: str
    query: dict[str, Any]
    kind: str
    values: tuple[bool | int | float | str | None, ...]
    unit: str
    rows: tuple[QueryRow, ...]
    row_count: int
    warnings: tuple[str, ...] = ()
    searched: tuple[str, ...] = ()


class QueriedRecord(FrozenModel):
    """How rules read a question, and the rows. `status` is understood, declined, not_understood.

    `not_understood` are the words that no rule reads; `reason` says why nothing was searched, or
    which judgement is not made (its queries are of related facts).
    """

    patient: dict[str, str]
    question: str
    now: str
    status: str
    reason: str = ""
    not_understood: tuple[str, ...] = ()
    queries: tuple[AnsweredQuery, ...] = ()
    remarks: tuple[str, ...] = ()


class AskedAnswer(FrozenModel):
    """The answer that `archqa ask --json` prints. Each line cites ids of `evidence`.

    `status` is answered, not_found, not_understood or declined.
    """

    question: str
    status: str
    answer: str
    lines: tuple[AnswerLine, ...]
    evidence: tuple[Evidence, ...]
    query: str | None
    not_understood: tuple[str, ...]
    patient: dict[str, str] | None
    remarks: tuple[str, ...]
    related: tuple[Evidence, ...]
    answered_by: AnsweredBy
    calls: int
    cached_calls: int
    cost_usd: float | None
    understood: str | None = None


class PatientBrief(FrozenModel):
    """The summary that `archqa brief --json` prints. Each line cites ids of `evidence`."""

    patient: dict[str, str]
    now: str
    sections: tuple[BriefSection, ...]
    nothing_recorded: str
    evidence: tuple[Evidence, ...]
    remarks: tuple[str, ...]
    answered_by: AnsweredBy
    calls: int
    cost_usd: float | None


class WrittenResource(FrozenModel):
    """A resource that was added in memory; `findings` are doubts about it."""

    id: str
    resource: dict[str, Any]
    findings: tuple[str, ...] = ()
    remark: str
