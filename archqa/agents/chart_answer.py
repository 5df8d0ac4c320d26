"""Answers a person's question from a patient's chart, record and notes, in lines with citations."""

from collections.abc import Mapping

from archqa.agents.agent import Agent, Rejected
from archqa.agents.grounding import line_problems, names_words_of, states_result
from archqa.agents.note_answer import AnswerStatus
from archqa.core.value import FrozenModel

MAX_RELATED_LINES = 2
"""Lines beside an answer that the chart does not give."""

MAX_MISSING_CHARACTERS = 240

_RESULT_TYPE = "Observation/"


class ChartLine(FrozenModel):
    """One line of an answer and the marks of what states it."""

    text: str
    citations: tuple[str, ...]


class ChartReply(FrozenModel):
    """The answer; the reason comes first, so that it is thought of first."""

    rationale: str = ""
    status: AnswerStatus
    lines: tuple[ChartLine, ...] = ()
    missing: str = ""
    """What the chart does not state, or the judgement that is not made."""
    not_understood: tuple[str, ...] = ()
    """Words of the question."""


class ChartAnswerTask(FrozenModel):
    """A question, and what is shown of the chart before anything is looked up.

    `background` is what the asker says besides. `card` says what the record holds, `notes` what
    notes there are; `sentences` are those that fit the question best, `found` is what the query
    grammar answers.
    """

    question: str
    now: str
    patient: str
    background: str = ""
    card: str
    notes: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()
    found: tuple[str, ...] = ()


class CitedText(FrozenModel):
    """A cited sentence, line or resource, and what is shown around it.

    `before` is the sentence before it, to which a pronoun may point. `first_date` is that of the
    earliest note which has the same sentence, if it is another one. `label` is the first cell of a
    table's row where the text goes on with that row, `opening` the dated lines with which the note
    begins, `details` the resource if it was read whole.
    """

    text: str
    id: str = ""
    title: str = ""
    date: str = ""
    heading: str = ""
    before: str = ""
    first_date: str = ""
    label: str = ""
    opening: str = ""
    details: str = ""


class ShownSource(CitedText):
    """A sentence of a note or a line of the record as a model was shown it, under its mark.

    `ids` are the sentence or the resources that it stands for.
    """

    mark: str
    ids: tuple[str, ...]

    @property
    def all_text(self) -> str:
        """All that was shown with the source and says something of it, line by line."""
        note = (self.date, self.first_date, self.title, self.opening)
        return "\n".join((*note, self.heading, self.label, self.text, self.details))


class ChartAnswerAgent(Agent[ChartAnswerTask, ChartReply]):
    """Looks up in the chart what it needs, in turns, and answers from what it was shown."""

    name = "chart_answer"
    prompt = "chart_answer/v3"
    task_type = ChartAnswerTask
    output_type = ChartReply


def check_reply(
    question: str, reply: ChartReply, sources: Mapping[str, ShownSource]
) -> None:
    """Raise `Rejected`, with all that is wrong, if a reply or one of its lines is not acceptable."""
    problems = []
    if reply.status == "answered":
        if not reply.lines:
            problems.append(
                '"answered" needs lines. Without any, the status is another one.'
            )
    elif reply.status == "not_understood":
        if reply.lines:
            problems.append('With the status "not_understood" leave "lines" empty.')
        if not names_words_of(question, reply.not_understood):
            problems.append(
                'Copy into "not_understood" the words of the question that you mean.'
            )
    else:
        if len(reply.lines) > MAX_RELATED_LINES:
            problems.append(
                f'With the status "{reply.status}" give at most {MAX_RELATED_LINES} lines.'
            )
        if not reply.missing.strip():
            problems.append(
                'Name in "missing" what the chart does not state, or is not judged.'
            )
        if len(reply.missing) > MAX_MISSING_CHARACTERS:
            problems.append(
                'Name what is missing in a few words; facts belong into "lines", with citations.'
            )
    for number, line in enumerate(reply.lines, start=1):
        problems += chart_line_problems(question, line, number, sources)
    if problems:
        raise Rejected(" ".join(problems))


def chart_line_problems(
    question: str, line: ChartLine, number: int, sources: Mapping[str, ShownSource]
) -> list[str]:
    """Return what is wrong with a line: what it cites was shown, and has its numbers and drugs."""
    texts = {mark: source.all_text for mark, source in sources.items()}
    marks = set(line.citations)
    names: set[str] = set()
    for mark in marks & set(sources):
        names.update(sources[mark].ids)
    # A line may say how many sources it cites.
    also = f"{question}\n({len(marks)} {len(names)})"
    return line_problems(
        line.text, number, line.citations, texts, noun="source", also=also
    )


def is_result(
    question: str, line: ChartLine, sources: Mapping[str, ShownSource]
) -> bool:
    """Whether a line is a single result of the record that was verified: no check is needed."""
    source = sources[line.citations[0]]
    is_single = len(set(line.citations)) == 1
    if not is_single or not all(name.startswith(_RESULT_TYPE) for name in source.ids):
        return False
    return states_result(line.text, f"{source.date} {source.text}", question)
