"""An answer for people: a sentence, and the rows that support it with the resources they cite.

Every claim is checked against its resources, which are read again from the record: they must exist
and contain its name, value and time. "No record of ..." says what was searched.

`format_agent_answer` writes the bare value, as the gold answers of FHIR-AgentBench are printed.
Source: glee4810/FHIR-AgentBench at bbb4290, final_dataset: yes and no, numbers with up to 8
decimals, times `2133-12-31 02:00:00`, several values as a list, "no answer" where there is none.
"""

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from archqa.core.id_lists import list_ids
from archqa.core.value import FrozenModel
from archqa.fhir import Record, Resource
from archqa.query.execution.findings import QueryResult, Scalar
from archqa.query.execution.rows import Row
from archqa.query.wording.queries import answer_prefix, query_text, subject_text

NO_ANSWER = "no answer"


def format_agent_answer(result: QueryResult) -> str:
    """The value, or the list of values, and nothing else."""
    values = [value for value in result.answer.values if value is not None]
    if not values:
        return NO_ANSWER
    if len(values) == 1:
        return format_value(values[0])
    return json.dumps([_rounded(value) for value in values], ensure_ascii=False)


def format_value(value: Scalar) -> str:
    """One value as text: Yes, 70.3, 2133-12-31 02:00:00."""
    if value is None:
        return NO_ANSWER
    if value is True:
        return "Yes"
    if value is False:
        return "No"
    if isinstance(value, int | float):
        return f"{round(value, 8):.8f}".rstrip("0").rstrip(".")
    return value


def _rounded(value: Scalar) -> Scalar:
    if isinstance(value, float):
        return round(value, 8)
    return value


ReadResource = Callable[[str, str], Resource | None]
"""Reads a resource by its type and id."""

_MAX_CLAIMS = 12
"""Claims that are written out; further ones are only counted."""

_FACT_OF_FIELD = {"age": "birth_date"}
_FACTS = (
    "specimen",
    "organism",
    "result",
    "route",
    "admission_source",
    "discharge_destination",
    "admission_type",
    "care_unit",
    "sex",
    "birth_date",
    "marital_status",
    "ethnicity",
    "language",
    "death_time",
)
"""Facts of a row that are written out, in this order."""

_MAX_VALUES_PER_FACT = 3
_CODED_FACTS = frozenset(
    {
        "sex",
        "marital_status",
        "admission_type",
        "discharge_destination",
        "result",
        "care_unit",
    }
)
"""Facts derived from codes or from the place of a stay: a resource does not contain them."""


class VerifiedClaim(FrozenModel):
    """One row as text, its resources (`Type/id`), and what they do not confirm (empty: nothing)."""

    text: str
    refs: tuple[str, ...]
    wrong: str = ""

    def __str__(self) -> str:
        verification = f" (not verified: {self.wrong})" if self.wrong else ""
        refs = ", ".join(self.refs)
        return f"{self.text} [{refs}]{verification}"


class Explanation(FrozenModel):
    """An answer for people.

    `sentence` is the answer, `claims` support it, `omitted` counts claims not written out.
    """

    sentence: str
    claims: tuple[VerifiedClaim, ...] = ()
    omitted: int = 0
    warnings: tuple[str, ...] = ()
    searched: tuple[str, ...] = ()

    @property
    def verified(self) -> bool:
        """Whether every cited resource exists and contains what is claimed."""
        return not any(claim.wrong for claim in self.claims)

    @property
    def text(self) -> str:
        """The sentence, the claims and the warnings, one a line."""
        lines = [self.sentence]
        for claim in self.claims:
            lines.append(f"- {claim}")
        if self.omitted:
            lines.append(f"- and {self.omitted} more")
        for warning in self.warnings:
            lines.append(f"Note: {warning}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text


def explain(result: QueryResult, record: Record) -> Explanation:
    """The answer as text, with verified citations. Raises as the record does."""
    rows = list(result.chosen)
    values = result.answer.values
    if result.query.summary in {"minimum", "maximum"} and len(values) == 1:
        # Rows with that value come first.
        rows.sort(key=lambda row: values[0] is not None and row.value != values[0])
    claims = []
    for row in rows[:_MAX_CLAIMS]:
        text = _row_text(row, result.query.returns)
        refs = (*row.refs, *row.context_refs)
        claims.append(
            VerifiedClaim(text=text, refs=refs, wrong=unconfirmed(row, record.get))
        )
    return Explanation(
        sentence=_answer_sentence(result),
        claims=tuple(claims),
        omitted=len(rows) - len(claims),
        warnings=result.warnings,
        searched=result.searched,
    )


def _answer_sentence(result: QueryResult) -> str:
    query = result.query
    answer = result.answer
    searched = f"Searched: {'; '.join(result.searched)}."
    if not result.chosen and query.against is None:
        return f"No record of {subject_text(query)} was found. {searched}"
    if answer.is_empty:
        return f"This cannot be told from the record: {query_text(query)} {searched}"
    unit = f" {answer.unit}" if answer.unit else ""
    if answer.periods:
        by_period = []
        for period, value in zip(answer.periods, answer.values, strict=True):
            by_period.append(f"{period}: {format_value(value)}")
        return f"{answer_prefix(query)}: {'; '.join(by_period)}{unit}."
    texts = [format_value(value) for value in answer.values if value is not None]
    values = ", ".join(dict.fromkeys(texts))
    if answer.kind != "yes_no":
        return f"{answer_prefix(query)}: {values}{unit}."
    if query.against:
        first_rows: dict[str, str] = {}
        for row in result.chosen:
            first_rows.setdefault(row.side, _row_text(row))
        return f"{values}: {' against '.join(first_rows.values())}."
    count = len(result.chosen)
    rows = "1 row" if count == 1 else f"{count} rows"
    return f"{values}, {rows} found for {subject_text(query)}."


def _row_text(row: Row, returns: str = "") -> str:
    """A row as text: name, value, facts, time. For the patient, only the returned field."""
    if row.refs[0].startswith("Patient/"):
        values = ", ".join(row.facts.get(_FACT_OF_FIELD.get(returns, returns), ()))
        return f"{returns.replace('_', ' ')}: {values}"
    value = row.text
    if row.value is not None:
        value = f"{format_value(row.value)} {row.unit}".rstrip()
    parts = [row.name, f"{row.comparator}{value}".strip()]
    for fact in _FACTS:
        parts += row.facts.get(fact, ())[:_MAX_VALUES_PER_FACT]
    text = ", ".join(dict.fromkeys(filter(None, parts)))
    period = f"{row.time:%Y-%m-%d %H:%M:%S}" if row.time else ""
    if row.end:
        period = f"{period or 'start unknown'} to {row.end:%Y-%m-%d %H:%M:%S}"
    return f"{text} ({period})" if period else text


def unconfirmed(row: Row, read: ReadResource) -> str:
    """What of a row its resources, read again, do not contain; empty if they contain everything."""
    resources: list[Resource] = []
    not_found: list[str] = []
    for ref in dict.fromkeys((*row.refs, *row.context_refs)):
        resource_type, resource_id = ref.split("/", 1)
        resource = read(resource_type, resource_id)
        if resource is None:
            not_found.append(ref)
        else:
            resources.append(resource)
    if not_found:
        return f"{list_ids(not_found)} not in the record"
    scalars = list(all_scalars(resources))
    texts = {str(scalar).strip() for scalar in scalars}
    missing = []
    if row.names and texts.isdisjoint(map(str.strip, row.names)):
        missing.append("the name")
    if row.value is not None and not _contains_value(row, scalars, texts):
        missing.append("the value")
    folded_texts = set(map(str.casefold, texts))
    for name in _FACTS:
        facts = row.facts.get(name, ()) if name not in _CODED_FACTS else ()
        if any(fact.casefold().strip() not in folded_texts for fact in facts):
            missing.append("what is told beside it")
            break
    times = [time for time in (row.time, row.end) if time is not None]
    if not all(_is_recorded(time, texts) for time in times):
        missing.append("the time")
    if not missing:
        return ""
    sources = "it" if len(resources) == 1 else "them"
    return f"{' and '.join(missing)} is not in {sources}"


def _contains_value(row: Row, scalars: list[Any], texts: set[str]) -> bool:
    if row.unit == "°C" and any("F" in text for text in texts):
        return True  # The value was converted from degrees Fahrenheit.
    numbers = []
    for scalar in scalars:
        if isinstance(scalar, int | float) and not isinstance(scalar, bool):
            numbers.append(scalar)
    recorded = row.facts.get("recorded_value")
    if recorded:  # The value was converted to another unit.
        return recorded[0].partition(" ")[0] in [f"{number:g}" for number in numbers]
    return row.value in numbers


def _is_recorded(moment: datetime, texts: set[str]) -> bool:
    """Whether a time stands among the texts, without zone and seconds.

    Midnight is a bare date, which stands for it, as the first day of a month or year does.
    """
    time = moment.isoformat()[:16].replace("T00:00", "")
    if any(text[:16].replace("T00:00", "") == time for text in texts):
        return True
    if time.endswith("-01-01") and time[:4] in texts:
        return True
    return time.endswith("-01") and time[:7] in texts


def all_scalars(element: Any) -> Iterator[Any]:
    """All scalars of a resource, at any depth."""
    if isinstance(element, dict):
        for child in element.values():
            yield from all_scalars(child)
    elif isinstance(element, list):
        for child in element:
            yield from all_scalars(child)
    else:
        yield element
