"""An answer for people: a sentence, and under it each row it rests on with the resources that hold it.

Every claim is checked against the resources it cites, read anew from the record: they must exist, and hold its name,
value and time. "No record of ..." says what was searched.
"""

from collections.abc import Iterator
from typing import Any

from archqa.core.value import FrozenModel
from archqa.fhir import Record, Resource
from archqa.query.benchmark_format import format_value
from archqa.query.execution.findings import QueryResult
from archqa.query.execution.rows import Row
from archqa.query.query_text import answer_prefix, subject_text

_MOST = 12
"""Claims that are written out. More are counted."""


class VerifiedClaim(FrozenModel):
    """One row in words, the resources that hold it (`Type/id`), and what is wrong with them (empty: nothing)."""

    text: str
    refs: tuple[str, ...]
    wrong: str = ""

    def __str__(self) -> str:
        return f"{self.text} [{', '.join(self.refs)}]{f' (not verified: {self.wrong})' if self.wrong else ''}"


class Explanation(FrozenModel):
    """An answer for people. `sentence` is the answer, `claims` what it rests on, `more` how many were not written."""

    sentence: str
    claims: tuple[VerifiedClaim, ...] = ()
    omitted: int = 0
    warnings: tuple[str, ...] = ()
    searched: tuple[str, ...] = ()

    @property
    def verified(self) -> bool:
        """Whether every cited resource exists and holds what is claimed."""
        return not any(claim.wrong for claim in self.claims)

    @property
    def text(self) -> str:
        """The sentence, the claims a line each, and the warnings."""
        lines = [self.sentence, *(f"- {claim}" for claim in self.claims)]
        lines += [f"- and {self.omitted} more"] if self.omitted else []
        return "\n".join([*lines, *(f"Note: {each}" for each in self.warnings)])

    def __str__(self) -> str:
        return self.text


def explain(findings: QueryResult, record: Record) -> Explanation:
    """The answer in words, with verified citations. Raises as the record does."""
    chosen = _best_first(findings)
    claims = tuple(_checked(findings, row, record) for row in chosen[:_MOST])
    return Explanation(
        sentence=_sentence(findings),
        claims=claims,
        omitted=len(chosen) - len(claims),
        warnings=findings.warnings,
        searched=findings.searched,
    )


def _best_first(findings: QueryResult) -> list[Row]:
    """The chosen rows; of a minimum or maximum, the row that has it first."""
    values = findings.answer.values
    best = (
        values[0] if findings.query.summary in {"minimum", "maximum"} and len(values) == 1 else None
    )
    return sorted(findings.chosen, key=lambda row: best is not None and row.value != best)


def _sentence(findings: QueryResult) -> str:
    query, answer, chosen = findings.query, findings.answer, findings.chosen
    if not chosen and query.against is None:
        return f"No record of {subject_text(query)} was found. Searched: {'; '.join(findings.searched)}."
    if answer.is_empty:
        return f"This cannot be told from the record: {query.sentence} Searched: {'; '.join(findings.searched)}."
    if answer.periods:
        listed = "; ".join(
            f"{at}: {format_value(value)}"
            for at, value in zip(answer.periods, answer.values, strict=True)
        )
        return f"{answer_prefix(query)}: {listed}{_unit(findings)}."
    values = ", ".join(
        dict.fromkeys(format_value(value) for value in answer.values if value is not None)
    )
    if answer.kind == "yes_no":
        return (
            f"{values}: {_both_sides(findings)}."
            if query.against
            else f"{values}, {_found(findings)}."
        )
    return f"{answer_prefix(query)}: {values}{_unit(findings)}."


def _found(findings: QueryResult) -> str:
    number = len(findings.chosen)
    return f"{number} {'row' if number == 1 else 'rows'} found for {subject_text(findings.query)}"


def _both_sides(findings: QueryResult) -> str:
    sides = [[row for row in findings.chosen if row.side == side] for side in ("own", "other")]
    return " against ".join(_text(rows[0]) for rows in sides if rows)


def _unit(findings: QueryResult) -> str:
    return f" {findings.answer.unit}" if findings.answer.unit else ""


def _text(row: Row, returns: str = "") -> str:
    """A row in words: name, value, route and so on, time. Of a patient, only what is asked for."""
    if row.refs[0].startswith("Patient/"):
        return f"{returns.replace('_', ' ')}: {', '.join(row.facts.get(_SAYS.get(returns, returns), ()))}"
    value = f"{format_value(row.value)} {row.unit}".rstrip() if row.value is not None else row.text
    facts = [each for name in _TOLD for each in row.facts.get(name, ())[:3] if each != row.name]
    parts = [row.name, f"{row.comparator}{value}".strip(), *facts]
    told = ", ".join(dict.fromkeys(part for part in parts if part))
    start, end = _time(row.time), _time(row.end)
    return (
        f"{told} ({start or 'start unknown'}{f' to {end}' if end else ''})"
        if start or end
        else told
    )


_TOLD = (
    *(
        "specimen",
        "organism",
        "result",
        "route",
        "admission_source",
        "discharge_destination",
        "admission_type",
    ),
    *("care_unit", "sex", "birth_date", "marital_status", "ethnicity", "language", "death_time"),
)


_SAYS = {"age": "birth_date"}
_LITERAL = frozenset(_TOLD) - {
    "sex",
    "marital_status",
    "admission_type",
    "discharge_destination",
    "result",
}
"""What stands in the resources word for word; the others are read out of codes."""


def _time(time: Any) -> str:
    return f"{time.replace(tzinfo=None):%Y-%m-%d %H:%M:%S}" if time is not None else ""


def _checked(findings: QueryResult, row: Row, record: Record) -> VerifiedClaim:
    refs = (*row.refs, *row.context_refs)
    held = {ref: record.get(*ref.split("/", 1)) for ref in refs}
    absent = [ref for ref, resource in held.items() if resource is None]
    wrong = f"{', '.join(absent)} not in the record" if absent else _not_held(row, held)
    return VerifiedClaim(text=_text(row, findings.query.returns), refs=refs, wrong=wrong)


def _not_held(row: Row, held: dict[str, Resource | None]) -> str:
    """What of a row its resources do not say; empty if they say all of it."""
    said = [value for resource in held.values() for value in _scalars(resource)]
    texts = {str(value).strip() for value in said}
    converted = row.unit == "°C" and any("F" in text for text in texts)
    wrong = []
    if row.names and not any(name.strip() in texts for name in row.names):
        wrong.append("the name")
    if (
        row.value is not None
        and not converted
        and row.value not in [each for each in said if _is_number(each)]
    ):
        wrong.append("the value")
    told = {each.casefold().strip() for name in _LITERAL for each in row.facts.get(name, ())}
    if not told <= {text.casefold() for text in texts}:
        wrong.append("what is told beside it")
    times = [_date(time.isoformat()) for time in (row.time, row.end) if time is not None]
    if any(not any(_date(text) == time for text in texts) for time in times):
        wrong.append("the time")
    return f"{' and '.join(wrong)} is not in {'it' if len(held) == 1 else 'them'}" if wrong else ""


def _date(text: str) -> str:
    """A date or time without its zone and seconds, since a bare date stands for its midnight."""
    return text[:16].replace("T00:00", "")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _scalars(value: Any) -> Iterator[Any]:
    """All that a resource says, wherever it stands."""
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        yield value
        return
    for each in value:
        yield from _scalars(each)
