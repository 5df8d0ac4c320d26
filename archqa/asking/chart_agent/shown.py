"""What of a patient's chart a model was shown: its notes and its record, under marks."""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from archqa.agents.chart_answer import ChartAnswerTask, ChartLine, ShownSource
from archqa.asking.answer import AnswerLine, Evidence
from archqa.asking.chart_agent.notes import ShownNotes
from archqa.asking.chart_agent.record import ShownRecord
from archqa.asking.record import PatientQueries
from archqa.chart.chart_notes import ChartNotes
from archqa.chart.note_writer import Encode
from archqa.query.contents import contents_card, contents_of
from archqa.query.conventions import CLINICAL

_FIRST_HITS = 25
_CARD_CHARACTERS = 1_500


class ChartToAsk(NamedTuple):
    """A patient's chart: the notes, the queries of the record, and the time of the question.

    `encode` gives the vectors of sentences. `texts` are the indices of the sentences worth searching
    (`archqa.chart.templated`), None for all. `background` is what else is known.
    """

    notes: ChartNotes
    queries: PatientQueries
    encode: Encode
    now: datetime
    texts: Collection[int] | None = None
    background: str = ""


class ShownChart:
    """The chart of one question; only what was shown can be cited."""

    def __init__(self, chart: ChartToAsk, question: str) -> None:
        self.record = ShownRecord(chart.queries, chart.now, question)
        hidden = self.record.hidden_words()
        self.notes = ShownNotes(chart.notes, chart.encode, chart.texts, hidden)
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
        ids = [name for mark in line.citations for name in sources[mark].ids]
        return AnswerLine(text=" ".join(line.text.split()), citations=tuple(dict.fromkeys(ids)))

    def evidence(self, lines: Iterable[ChartLine]) -> Iterator[Evidence]:
        """Yield each cited sentence and resource once, in the order of the lines."""
        sources = self.sources
        told: set[str] = set()
        for mark in [mark for line in lines for mark in line.citations]:
            for name in sources[mark].ids:
                if name not in told:
                    told.add(name)
                    yield self.notes.evidence(name) or self.record.evidence(name, sources[mark])

    def titles(self, line: ChartLine) -> str:
        """Return the titles and dates of what a line cites."""
        sources = self.sources
        cited = [sources[mark] for mark in dict.fromkeys(line.citations)]
        texts = [", ".join(filter(None, (source.title, source.date))) for source in cited]
        return "; ".join(dict.fromkeys(texts))
