"""The tools of an agent that reads one patient's chart. They write nothing."""

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from archqa.agents.tools import Tool, ToolResult, tool_error
from archqa.asking.chart_agent.notes import ShownNotes
from archqa.asking.chart_agent.record import ShownRecord
from archqa.core.value import FrozenModel
from archqa.fhir import Record
from archqa.query import CannotExecute
from archqa.query.kinds import KINDS

_MAX_HITS = 15
_DATE = r"^(?:\d{4}(?:-\d{2}(?:-\d{2})?)?)?$"
_SINCE = Field(default="", pattern=_DATE, description="From this date on: 2024, 2024-03 or a day.")
_UNTIL = Field(default="", pattern=_DATE, description="Up to this date, included.")
_TITLE = Field(default="", description="Words of the title, type or author of a note.")


class SearchNotesArguments(FrozenModel):
    """What to search for."""

    query: str = Field(description="Words or a sentence as a note would have them.")
    since: str = _SINCE
    until: str = _UNTIL
    title: str = _TITLE


class SearchNotes(Tool[SearchNotesArguments]):
    """Finds sentences by words and by meaning."""

    name = "search_notes"
    description = "Find sentences of the notes, best first, with those beside them."
    takes = SearchNotesArguments

    def __init__(self, notes: ShownNotes) -> None:
        self._notes = notes

    def run(self, record: Record, args: SearchNotesArguments) -> ToolResult:
        """Return the hits by note."""
        if not args.query.strip():
            return tool_error("arguments", "search_notes: the query has no word.")
        found = self._notes.search(args.query, _MAX_HITS, args.since, args.until, args.title)
        return _result(found, "No note fits these limits.")


class ReadNoteArguments(FrozenModel):
    """Which sentences of which note."""

    note: str = Field(description="The note's mark, such as n3.")
    first: int = Field(default=1, ge=1, description="The first sentence to read.")
    last: int = Field(default=0, ge=0, description="The last one; 0: as many as fit.")


class ReadNote(Tool[ReadNoteArguments]):
    """Reads a note in order."""

    name = "read_note"
    description = "Read the sentences of a note in order."
    takes = ReadNoteArguments

    def __init__(self, notes: ShownNotes) -> None:
        self._notes = notes

    def run(self, record: Record, args: ReadNoteArguments) -> ToolResult:
        """Return the sentences."""
        lines = self._notes.note(args.note, args.first, args.last)
        return _result(lines, "There is no such note. list_notes has the marks.")


class ListNotesArguments(FrozenModel):
    """Which notes."""

    title: str = _TITLE
    since: str = _SINCE
    until: str = _UNTIL


class ListNotes(Tool[ListNotesArguments]):
    """Lists notes by date and title."""

    name = "list_notes"
    description = "List the notes, latest first: mark, date, title, author, number of sentences."
    takes = ListNotesArguments

    def __init__(self, notes: ShownNotes) -> None:
        self._notes = notes

    def run(self, record: Record, args: ListNotesArguments) -> ToolResult:
        """Return a line a note; without limits, many of one title are counted."""
        if not (args.title or args.since or args.until):
            return _result(self._notes.by_title(), "There are none.")
        selected = self._notes.select(args.since, args.until, args.title)
        return _result(self._notes.listed(selected), "No note fits these limits.")


class QueryRecordArguments(FrozenModel):
    """What to ask."""

    question: str = Field(description="A short question in everyday words, such as: latest LDL?")


class QueryRecord(Tool[QueryRecordArguments]):
    """Asks the record by the everyday grammar."""

    name = "query_record"
    description = "Ask the record a short question that rules read; check how they read it."
    takes = QueryRecordArguments

    def __init__(self, shown: ShownRecord) -> None:
        self._shown = shown

    def run(self, record: Record, args: QueryRecordArguments) -> ToolResult:
        """Return the answer's lines, or which words were not understood."""
        return _result(self._shown.answered(args.question), "Nothing was found.")


class ListRecordArguments(FrozenModel):
    """Which rows."""

    kind: str = Field(description=f"One of: {', '.join(KINDS)}.")
    contains: str = Field(
        default="", description="Words of the row or their beginnings, or what it is a kind of."
    )
    since: str = _SINCE
    until: str = _UNTIL


class ListRecord(Tool[ListRecordArguments]):
    """Lists the rows of one kind."""

    name = "list_record"
    description = "List rows of the record of one kind, latest first, with values and statuses."
    takes = ListRecordArguments

    def __init__(self, shown: ShownRecord) -> None:
        self._shown = shown

    def run(self, record: Record, args: ListRecordArguments) -> ToolResult:
        """Return the rows."""
        if args.kind not in KINDS:
            return tool_error("arguments", f"list_record: kind is one of: {', '.join(KINDS)}.")
        try:
            lines = self._shown.listed(args.kind, args.contains, args.since, args.until)
        except CannotExecute as problem:
            return tool_error("search", " ".join(str(problem).split()))
        return _result(lines, "There are none.")


class ReadResourceArguments(FrozenModel):
    """Which row."""

    row: str = Field(description="The row's mark, such as r5.")


class ReadResource(Tool[ReadResourceArguments]):
    """Reads the resources of a row whole."""

    name = "read_resource"
    description = "Read everything that the resource of one row says."
    takes = ReadResourceArguments

    def __init__(self, shown: ShownRecord) -> None:
        self._shown = shown

    def run(self, record: Record, args: ReadResourceArguments) -> ToolResult:
        """Return the resources without codes' systems and narrative."""
        return _result(self._shown.resource(args.row), "No row of that mark was shown.")


def chart_tools(notes: ShownNotes, record: ShownRecord) -> tuple[Tool[Any], ...]:
    """Return the tools; those of notes only where there are notes."""
    of_record = (QueryRecord(record), ListRecord(record), ReadResource(record))
    if not notes.notes.documents:
        return of_record
    return (SearchNotes(notes), ReadNote(notes), ListNotes(notes), *of_record)


def _result(lines: Sequence[str], otherwise: str) -> ToolResult:
    return ToolResult(output={"lines": list(lines) or [otherwise]})
