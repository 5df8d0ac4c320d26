"""Rows with one of the names, or of one of the concepts, that a query asks for."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from archqa.fhir import CodeCount
from archqa.query.execution.concept_limit import ConceptMatcher, concepts_of_rows
from archqa.query.execution.context import ExecutionContext
from archqa.query.execution.names import NameMatcher
from archqa.query.execution.rows import Coding, Row
from archqa.query.kinds import KINDS

Code = tuple[str, str]
"""System and code."""


class Wanted(NamedTuple):
    """The names and concepts of one side of a query: either suffices; without any, all rows."""

    names: tuple[str, ...] = ()
    concepts: tuple[str, ...] = ()

    @property
    def is_everything(self) -> bool:
        """Whether no name is asked for."""
        return not self.names and not self.concepts

    def __str__(self) -> str:
        return " or ".join(map(repr, (*self.concepts, *self.names)))


class RowTest:
    """Which rows of a kind a query wants. `record_names` are those that the rows of it have."""

    def __init__(
        self, context: ExecutionContext, what: str, wanted: Wanted, record_names: Iterable[str]
    ) -> None:
        self._what = what
        self._has_names = bool(wanted.names)
        self._names = NameMatcher(wanted.names, record_names, context.conventions, what)
        concepts = concepts_of_rows(wanted.concepts, what)
        self._concepts = ConceptMatcher(
            concepts, past=context.query.state != "current", in_text=what == "goal"
        )

    def matches(self, codings: Iterable[Coding], names: Iterable[str]) -> bool:
        """Whether one of the names, or one of the codes, is wanted."""
        if not self._has_names and not self._concepts:
            return True
        if self._has_names and self._names(*names):
            return True
        return self._concepts.matches(codings)

    def matches_row(self, row: Row) -> bool:
        """Whether a row is wanted; a component also by the name of its panel."""
        if self.matches(row.codings, (*row.names, *row.facts.get("panel", ()))):
            return True
        return self._what == "allergy" and self._concepts.matches_allergy(row)


class CodeTest:
    """Which codes of a record a query wants; it collects them, for rows with other displays."""

    def __init__(
        self, context: ExecutionContext, what: str, wanted: Wanted, codes: Iterable[CodeCount]
    ) -> None:
        codes = list(codes)
        displays = [code.display for code in codes]
        self.rows = RowTest(context, what, wanted, displays)
        self.codes: set[Code] = set()
        for code in codes:
            coding = Coding(code.system, code.code, code.display)
            if self.rows.matches((coding,), (code.display or code.code,)):
                self.codes.add((code.system, code.code))

    def __call__(self, code: CodeCount) -> bool:
        """Whether a code is wanted, be it by another of its displays."""
        return (code.system, code.code) in self.codes


def select_named(
    context: ExecutionContext,
    what: str,
    rows: Sequence[Row],
    wanted: Wanted,
    code_test: CodeTest | None = None,
) -> list[Row]:
    """The wanted rows; by the conventions, also those that share a code with one of them.

    `code_test`: where the rows are not all of the record, what its codes say.
    """
    if wanted.is_everything:
        return list(rows)
    if code_test is None:
        test = RowTest(context, what, wanted, _names_of(rows))
        codes: set[Code] = set()
    else:
        test = code_test.rows
        codes = code_test.codes
    named = [row for row in rows if test.matches_row(row)]
    if not KINDS[what].one_code or not context.conventions.one_code_is_one_thing:
        return named
    return _with_codes(rows, named, codes)


def _names_of(rows: Iterable[Row]) -> list[str]:
    names: list[str] = []
    for row in rows:
        names += row.names
    return names


def _with_codes(rows: Sequence[Row], named: Sequence[Row], codes: Iterable[Code]) -> list[Row]:
    """The named rows, and those that have one of the codes or share one with a named row."""
    wanted_codes = set(codes).union(*map(_codes, named))
    named_ids = set(map(id, named))
    return [row for row in rows if id(row) in named_ids or not wanted_codes.isdisjoint(_codes(row))]


def _codes(row: Row) -> set[Code]:
    """The codes of a row. Those of products are none: hospitals order several things by one."""
    return {
        (coding.system, coding.code)
        for coding in row.codings
        if coding.code and not coding.system.lower().endswith("ndc")
    }
