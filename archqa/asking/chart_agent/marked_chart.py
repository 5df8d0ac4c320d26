"""A patient's chart as a model is shown it, and the tools to look up more. They write nothing."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple

from pydantic import Field

from archqa.agents.chart_answer import ChartAnswerTask, ChartLine, ShownSource
from archqa.agents.tools import Arguments, Tool, ToolResult, tool_error
from archqa.asking.answer import AnswerLine, Evidence
from archqa.asking.chart_agent.marked_notes import MarkedNotes
from archqa.asking.chart_agent.marked_record import MarkedRecord
from archqa.asking.record import PatientQueries
from archqa.chart.note_index import Encode
from archqa.chart.notes import ChartNotes
from archqa.core.value import DescribedModel
from archqa.fhir import Record
from archqa.query import CannotExecute
from archqa.query.contents import contents_card, contents_of
from archqa.query.conventions import CLINICAL
from archqa.query.kinds import KINDS

_FIRST_HITS = 25
_CARD_CHARACTERS = 1_500


class ChartToAsk(NamedTuple):
    """A patient's chart: the notes, the queries of the record, and the time of the question.

    `encode` gives the vectors of sentences. `texts` are the indices of the sentences worth searching
    (`archqa.chart.notes`), None for all. `background` is what else is known.
    """

    notes: ChartNotes
    queries: PatientQueries
    encode: Encode
    now: datetime
    texts: Collection[int] | None = None
    background: str = ""


class MarkedChart:
    """The chart of one question; only what was shown can be cited."""

    def __init__(self, chart: ChartToAsk, question: str) -> None:
        self.record = MarkedRecord(chart.queries, chart.now, question)
        hidden = self.record.hidden_words()
        self.notes = MarkedNotes(chart.notes, chart.encode, chart.texts, hidden)
        self.now = f"{chart.now:%Y-%m-%d %H:%M}"
        self._chart = chart
        self._question = question

    @property
    def sources(self) -> dict[str, ShownSource]:
        """What was shown, by mark."""
        return {**self.notes.shown, **self.record.shown}

    def first_task(self) -> ChartAnswerTask:
        """Return what is shown of the chart with the question. Raises as the record does."""
        contents = contents_of(self._chart.queries.chart, CLINICAL)
        return ChartAnswerTask(
            question=self._question,
            now=self.now,
            background=self._chart.background,
            patient=self.record.patient_line(),
            card=contents_card(contents, _CARD_CHARACTERS),
            notes=tuple(self.notes.by_title()),
            sentences=tuple(self.notes.first_hits(self._question, _FIRST_HITS)),
            found=tuple(self.record.found(self._question)),
        )

    def answer_line(self, line: ChartLine) -> AnswerLine:
        """Return a line with the ids of what its marks stand for."""
        sources = self.sources
        ids: dict[str, None] = {}
        for mark in line.citations:
            ids.update(dict.fromkeys(sources[mark].ids))
        return AnswerLine(text=" ".join(line.text.split()), citations=tuple(ids))

    def evidence(self, lines: Iterable[ChartLine]) -> Iterator[Evidence]:
        """Yield each cited sentence and resource once, in the order of the lines."""
        sources = self.sources
        yielded: set[str] = set()
        for mark in chain.from_iterable(line.citations for line in lines):
            source = sources[mark]
            for name in source.ids:
                if name not in yielded:
                    yielded.add(name)
                    yield self.notes.evidence(name) or self.record.evidence(
                        name, source
                    )

    def titles(self, line: ChartLine) -> str:
        """Return the titles and dates of what a line cites."""
        sources = self.sources
        titles: dict[str, None] = {}
        for mark in line.citations:
            source = sources[mark]
            titles[", ".join(filter(None, (source.title, source.date)))] = None
        return "; ".join(titles)


_MAX_HITS = 15
_DATE = r"^(?:\d{4}(?:-\d{2}(?:-\d{2})?)?)?$"
_SINCE = Field(
    default="", pattern=_DATE, description="From this date on: 2024, 2024-03 or a day."
)
_UNTIL = Field(default="", pattern=_DATE, description="Up to this date, included.")
_TITLE = Field(default="", description="Words of the title, type or author of a note.")


@dataclass
class _ChartTool(Tool[Arguments]):
    """Shows more of one chart."""

    notes: MarkedNotes
    record: MarkedRecord


class SearchNotesArguments(DescribedModel):
    """What to search for."""

    query: str
    """Words or a sentence as a note would have them."""

    since: str = _SINCE
    until: str = _UNTIL
    title: str = _TITLE


class SearchNotes(_ChartTool[SearchNotesArguments]):
    """Finds sentences by words and by meaning."""

    name = "search_notes"
    description = "Find sentences of the notes, best first, with those beside them."
    takes = SearchNotesArguments

    def run(self, record: Record, args: SearchNotesArguments) -> ToolResult:
        """Return the hits by note, or that nothing fits."""
        if not args.query.strip():
            return tool_error("arguments", "search_notes: the query has no word.")
        lines = self.notes.search(
            args.query, _MAX_HITS, args.since, args.until, args.title
        )
        return ToolResult(output={"lines": lines})


class ReadNoteArguments(DescribedModel):
    """Which sentences of which note."""

    note: str
    """The note's mark, such as n3."""

    first: int = Field(default=1, ge=1)
    """The first sentence to read."""

    last: int = Field(default=0, ge=0)
    """The last one; 0: as many as fit."""


class ReadNote(_ChartTool[ReadNoteArguments]):
    """Reads a note in order."""

    name = "read_note"
    description = "Read the sentences of a note in order."
    takes = ReadNoteArguments

    def run(self, record: Record, args: ReadNoteArguments) -> ToolResult:
        """Return the sentences."""
        lines = self.notes.note(args.note, args.first, args.last)
        return _result(lines, "There is no such note. list_notes has the marks.")


class ListNotesArguments(DescribedModel):
    """Which notes."""

    title: str = _TITLE
    since: str = _SINCE
    until: str = _UNTIL


class ListNotes(_ChartTool[ListNotesArguments]):
    """Lists notes by date and title."""

    name = "list_notes"
    description = (
        "List the notes, latest first: mark, date, title, author, number of sentences."
    )
    takes = ListNotesArguments

    def run(self, record: Record, args: ListNotesArguments) -> ToolResult:
        """Return a line a note; without limits, many of one title are counted."""
        if not (args.title or args.since or args.until):
            return _result(self.notes.by_title(), "There are none.")
        selected = self.notes.select(args.since, args.until, args.title)
        return _result(self.notes.listed(selected), "No note fits these limits.")


class QueryRecordArguments(DescribedModel):
    """What to ask."""

    question: str
    """A short question in everyday words, such as: latest LDL?"""


class QueryRecord(_ChartTool[QueryRecordArguments]):
    """Asks the record by the everyday grammar."""

    name = "query_record"
    description = (
        "Ask the record a short question that rules read; check how they read it."
    )
    takes = QueryRecordArguments

    def run(self, record: Record, args: QueryRecordArguments) -> ToolResult:
        """Return the answer's lines, or which words were not understood."""
        return _result(self.record.answered(args.question), "Nothing was found.")


class ListRecordArguments(DescribedModel):
    """Which rows."""

    kind: str = Field(description=f"One of: {', '.join(KINDS)}.")
    contains: str = ""
    """Words of the row or their beginnings, or what it is a kind of."""

    since: str = _SINCE
    until: str = _UNTIL


class ListRecord(_ChartTool[ListRecordArguments]):
    """Lists the rows of one kind."""

    name = "list_record"
    description = (
        "List rows of the record of one kind, latest first, with values and statuses."
    )
    takes = ListRecordArguments

    def run(self, record: Record, args: ListRecordArguments) -> ToolResult:
        """Return the rows."""
        if args.kind not in KINDS:
            return tool_error(
                "arguments", f"list_record: kind is one of: {', '.join(KINDS)}."
            )
        try:
            lines = self.record.listed(args.kind, args.contains, args.since, args.until)
        except CannotExecute as problem:
            return tool_error("search", " ".join(str(problem).split()))
        return _result(lines, "There are none.")


class ReadResourceArguments(DescribedModel):
    """Which row."""

    row: str
    """The row's mark, such as r5."""


class ReadResource(_ChartTool[ReadResourceArguments]):
    """Reads the resources of a row whole."""

    name = "read_resource"
    description = "Read everything that the resource of one row says."
    takes = ReadResourceArguments

    def run(self, record: Record, args: ReadResourceArguments) -> ToolResult:
        """Return the resources without codes' systems and narrative."""
        return _result(self.record.resource(args.row), "No row of that mark was shown.")


def chart_tools(notes: MarkedNotes, record: MarkedRecord) -> tuple[Tool[Any], ...]:
    """Return the tools; those of notes only where there are notes."""
    tools: tuple[type[_ChartTool[Any]], ...] = (QueryRecord, ListRecord, ReadResource)
    if notes.notes.documents:
        tools = (SearchNotes, ReadNote, ListNotes, *tools)
    return tuple(tool(notes, record) for tool in tools)


def _result(lines: Sequence[str], otherwise: str) -> ToolResult:
    return ToolResult(output={"lines": list(lines) or [otherwise]})
