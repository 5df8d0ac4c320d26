"""One answer from the resources and the notes of a chart, each fact once."""

import asyncio
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import NamedTuple

from archqa.asking.answer import (
    Answer,
    AnsweredBy,
    AnswerLine,
    Evidence,
    Status,
    cited_evidence,
)
from archqa.asking.chart.ask_chart import (
    AGENT,
    GIVEN_NOTE,
    PatientChart,
    answer_from_resources,
)
from archqa.asking.chart.note_answer import OpenChart
from archqa.asking.chart.statement_conflicts import note_conflicts
from archqa.asking.note import naming_other_language
from archqa.asking.question import ModelBackends, Question, StepLog, asks_model
from archqa.asking.question_parts import (
    asks,
    is_bare,
    question_parts,
)
from archqa.asking.record import answer_by_grammar, read_by_grammar, without_context
from archqa.chart.note_index import encode
from archqa.chart.search_terms import content_words, without_carrying_words
from archqa.core.id_lists import list_ids
from archqa.core.step import Step
from archqa.errors import InputError
from archqa.fhir import FhirError
from archqa.notes.documents import Document
from archqa.notes.question_form import blanked, is_judgement
from archqa.query.questions.everyday import Vocabulary
from archqa.query.questions.everyday.phrases import mark
from archqa.query.questions.everyday.reader import DECIDING
from archqa.query.wording.absence import unsearched_text
from archqa.terminology.concepts import find_concepts
from archqa.terminology.people import body_part_spans
from archqa.terminology.words import extract_numbers, word_list

_ISO_DATE = re.compile(r"\b\d{4}-\d\d(?:-\d\d)?\b")
_US_DATE = re.compile(r"\b\d{1,2}/\d{1,2}(?:/\d{2,4})?\b")
_NOT_JUDGED = "This asks for a clinical judgement or a prediction, which is not made."
_ON_THIS = "What the chart holds on this:"
_CONTRADICTION = "Notes and resources contradict each other: both are shown."

_LIMITING = word_list("limiting mark")
"""Kinds of marks (`archqa.query.questions.everyday.clause`) that limit what is asked of a thing."""

_QUESTIONS = {
    "measurement": "{} results",
    "drug": "{} orders",
    "drug_class": "{} orders",
    "condition": "{} diagnosis",
    "vaccine": "{} vaccinations",
    "procedure": "{} procedures",
}
"""The simple question about a concept of each kind."""

_MAX_NAMED = 3
"""Names of a question that the resources are asked for."""

_MAX_LINES = 4
"""Lines of the resources on each of them."""


async def answer_with_notes(
    question: Question, patient_chart: PatientChart, models: ModelBackends
) -> Answer:
    """Return the answer of resources and notes: by a model that looks up both, or by the engine.

    Raises as `answer_from_chart`.
    """
    given_notes: tuple[Document, ...] = ()
    if question.note is not None:
        given_notes = (Document(GIVEN_NOTE, "", "", question.note),)
    try:
        chart = await asyncio.to_thread(OpenChart, patient_chart, given_notes)
    except FhirError as error:
        raise InputError(question.options.record or "", [f": {error}"]) from None

    def answer_by_engine(record_answer: Answer | None = None) -> Answer:
        if record_answer is None:
            record_answer = answer_by_grammar(
                question.text, chart.queries, question.options.context
            )
        answer = chart_answer(
            question.text, record_answer, chart, ask_notes=bool(given_notes)
        )
        question.options.on_step(Step(agent="note_search", backend="embedded"))
        return answer

    if not chart.notes.documents:
        answer = await answer_from_resources(question, chart, models)
    elif "pipeline" in question.settings.typed_names:
        record_answer = await answer_from_resources(question, chart, models)
        answer = await asyncio.to_thread(answer_by_engine, record_answer)
    elif asks_model(question.settings, AGENT, question.options.scripted):
        answer = await _answer_by_agent(question, chart, models)
    else:
        answer = await asyncio.to_thread(answer_by_engine)
    if question.note is not None and answer.answered_by.reader != "model":
        answer = naming_other_language(answer, question.note)
    remarks = dict.fromkeys([*answer.remarks, *chart.remarks()])
    return answer.model_copy(update={"remarks": tuple(remarks)})


async def _answer_by_agent(
    question: Question, chart: OpenChart, models: ModelBackends
) -> Answer:
    """Return the answer of a model that looks up both.

    What the resources answer whole, and no note speaks of, only needs a model that confirms it.
    """
    # What asks models is slow to import.
    from archqa.asking.proposed_reading import checked_answer, grammar_use

    steps = StepLog(question.options.on_step)
    use = grammar_use(question.settings)
    if question.note is None and use != "off":
        reading = await asyncio.to_thread(read_by_grammar, question.text, chart.queries)
        answer = reading.answer
        is_answered = answer.status is Status.ANSWERED
        if is_answered and not await asyncio.to_thread(
            chart.is_of_notes, question.text
        ):
            if use == "first":
                return without_context(answer, question.options.context)
            answer = await checked_answer(
                question, reading, chart.queries, models, steps
            )
            if answer.status is Status.ANSWERED:
                return answer
    from archqa.asking.chart_agent import CHART_AGENT, ChartToAsk, answer_chart_by_model

    backends = models.open(CHART_AGENT)
    chart_to_ask = ChartToAsk(
        chart.notes,
        chart.queries,
        encode,
        chart.now,
        texts=chart.texts,
        background=question.options.context,
    )
    answer = await answer_chart_by_model(
        question.text, chart_to_ask, backends.context(steps)
    )
    return steps.answer_of(backends, answer)


def chart_answer(
    question: str, record_answer: Answer, chart: OpenChart, *, ask_notes: bool = False
) -> Answer:
    """Return the answer of both halves, given that of the resources.

    What the resources answer whole is not looked for in notes, unless `ask_notes`; but a note that
    says otherwise is shown.
    """
    combined = _CombinedAnswer(question, record_answer, chart)
    parts = judged_parts(question_parts(question).parts)
    if record_answer.status is Status.ANSWERED:
        answer = combined.from_resources()
        has_conflicts = answer is not record_answer
        if has_conflicts or not ask_notes or not parts.askable:
            return answer
    if not parts.askable:
        return combined.declined(parts.judgements)
    return combined.from_both(parts)


class JudgedParts(NamedTuple):
    """The parts of a question that can be answered, and those that ask for a judgement."""

    askable: tuple[str, ...]
    judgements: tuple[str, ...]


def judged_parts(parts: Sequence[str]) -> JudgedParts:
    """Return which parts can be answered from notes.

    What somebody advised or wants can be, also what is allowed ("can he have it again?").
    """
    askable: list[str] = []
    judgements: list[str] = []
    for part in parts:
        may_be_told = asks(part, "reports") or asks(part, "allowed")
        if (
            asks(part, "advice")
            or (is_judgement(part) and not may_be_told)
            or (is_bare(part) and judgements and not askable)
        ):
            judgements.append(part)
        else:
            askable.append(part)
    return JudgedParts(tuple(askable), tuple(judgements))


class _CombinedAnswer(NamedTuple):
    """The answer to one question about one chart, given that of its resources."""

    question: str
    record_answer: Answer
    chart: OpenChart

    def from_resources(self) -> Answer:
        """Return the resources' answer with the sentences that say otherwise or later."""
        record_answer, chart = self.record_answer, self.chart
        conflicts = note_conflicts(
            self.question, record_answer, chart.queries, chart.notes, chart.texts
        )
        if not conflicts:
            return record_answer
        # "Yes:" or "No:" is what notes say otherwise.
        lines = _without_verdicts(record_answer.lines)
        evidence = list(record_answer.evidence)
        names: dict[str, None] = {}
        for conflict in conflicts:
            names[conflict.name] = None
            line, cited = chart.note_answerer.quoted(conflict.place)
            lines.append(line)
            evidence += cited
        remark = f"On {list_ids(names)}, notes say otherwise or later than the resources: both are shown."
        answered_by = [record_answer.answered_by, chart.note_answerer.answered_by]
        changes = {
            "lines": tuple(lines),
            "evidence": tuple(evidence),
            "remarks": (remark, *record_answer.remarks),
            "answered_by": _join_answered_by(answered_by),
        }
        return record_answer.model_copy(update=changes)

    def declined(self, judgements: Sequence[str]) -> Answer:
        """Return that no judgement is made, with what resources and notes hold on the matter."""
        related = [self.chart.note_answerer.answer(self.question, judgements)]
        message = _NOT_JUDGED
        if self.record_answer.status is Status.DECLINED:
            related.insert(0, self.record_answer)
            message = _reason(self.record_answer)
        lines = _join_lines(related)
        return Answer(
            question=self.question,
            status=Status.DECLINED,
            lines=lines.lines,
            evidence=lines.evidence,
            message=f"{message} {_ON_THIS}" if lines.lines else message,
            query=related[0].query,
            remarks=related[0].remarks,
            answered_by=_join_answered_by([part.answered_by for part in related]),
            usage=self.record_answer.usage,
        )

    def from_both(self, parts: JudgedParts) -> Answer:
        """Return the notes' answer to the parts, with what the resources hold on them."""
        note_answer = self.chart.note_answerer.answer(self.question, parts.askable)
        facts = self._facts(parts.askable)
        status = self._status(note_answer, facts)
        facts_with_lines = []
        queries: dict[str, None] = {}
        for fact in facts:
            # What only names the same things does not answer.
            is_related_only = fact is not self.record_answer
            if fact.lines and not (status is Status.NOT_FOUND and is_related_only):
                facts_with_lines.append(fact)
                if fact.query:
                    queries[fact.query] = None
        lines = reconciled(_join_lines([note_answer]), _join_lines(facts_with_lines))
        verdicts = _verdicts(note_answer), _verdicts(self.record_answer)
        is_contradictory = verdicts in (({"no"}, {"yes"}), ({"yes"}, {"no"}))
        if is_contradictory:
            lines = lines._replace(lines=tuple(_without_verdicts(lines.lines)))
        is_understood = status is not Status.NOT_UNDERSTOOD
        halves = [note_answer, *facts_with_lines]
        return Answer(
            question=self.question,
            status=status,
            lines=lines.lines,
            evidence=lines.evidence,
            message=self._message(status, lines, note_answer, facts),
            query=self.record_answer.query or "\n".join(queries) or None,
            not_understood=() if is_understood else self.record_answer.not_understood,
            remarks=(
                *([_CONTRADICTION] if is_contradictory else []),
                *self._remarks(status, parts.judgements, halves),
            ),
            is_partial=bool(parts.judgements)
            or any(half.is_partial for half in (self.record_answer, *halves)),
            related=() if status is Status.ANSWERED else note_answer.related,
            answered_by=_join_answered_by([half.answered_by for half in halves]),
            usage=self.record_answer.usage,
        )

    def _facts(self, parts: Sequence[str]) -> list[Answer]:
        """Return what the resources hold on the parts of a question that they do not answer whole."""
        if self.record_answer.status in (Status.ANSWERED, Status.NOT_FOUND):
            return [self.record_answer]
        facts = []
        if len(parts) > 1:
            for part in parts:
                answer = answer_by_grammar(part, self.chart.queries)
                if answer.status is Status.ANSWERED:
                    facts.append(answer)
        return [*facts, *related_facts(self.question, self.chart)]

    def _status(self, note_answer: Answer, facts: Sequence[Answer]) -> Status:
        """Return the status of both halves.

        What cannot be read as a query is not found where the resources have nothing of what the
        question names, or no such name: the notes were searched by all its words. But a word that
        is neither in the notes nor an ordinary one may be a slip of the pen.
        """
        record_answer, chart = self.record_answer, self.chart
        if Status.ANSWERED in (note_answer.status, record_answer.status):
            return Status.ANSWERED
        if record_answer.status is Status.DECLINED and record_answer.ground != "notes":
            return Status.DECLINED
        if record_answer.status is not Status.NOT_UNDERSTOOD:
            return Status.NOT_FOUND
        statuses = {fact.status for fact in facts}
        if Status.ANSWERED in statuses:
            # They answer if the question says nothing but the things, and all are recorded.
            all_recorded = statuses == {Status.ANSWERED}
            if all_recorded and _is_all_named(
                self.question, chart.vocabulary, chart.now.date()
            ):
                return Status.ANSWERED
            return Status.NOT_UNDERSTOOD
        if chart.has_unknown_word(record_answer.not_understood):
            return Status.NOT_UNDERSTOOD
        return Status.NOT_FOUND

    def _message(
        self,
        status: Status,
        lines: "Lines",
        note_answer: Answer,
        facts: Sequence[Answer],
    ) -> str:
        if status is Status.ANSWERED:
            return ""
        record_message = _reason(self.record_answer)
        if status is not Status.NOT_FOUND:
            lead = f" {_ON_THIS}" if lines.lines else ""
            return f"{record_message} {note_answer.message}{lead}"
        messages = []
        if self.record_answer.status is not Status.NOT_UNDERSTOOD:
            messages.append(record_message)
        for fact in facts:
            if fact.status is Status.NOT_FOUND:
                messages.append(fact.message)
        if not messages and (gaps := self.chart.queries.chart.gaps()):
            return unsearched_text("what is asked for", gaps)
        if not messages:
            return f"No answer found: {self.chart.extent()} searched."
        return " ".join(dict.fromkeys([*messages, note_answer.message]))

    def _remarks(
        self, status: Status, judgements: Sequence[str], halves: Sequence[Answer]
    ) -> Iterator[str]:
        """Yield what was left out, why the resources do not answer, and the remarks of the halves."""
        for part in judgements:
            yield f"Not answered, a judgement: “{part}”"
        record_answer = self.record_answer
        if status is Status.ANSWERED and record_answer.status is status:
            # A note was given, and asked although the resources answer.
            yield from filter(None, [halves[0].message])
        elif status is Status.ANSWERED:
            if record_answer.status is Status.NOT_UNDERSTOOD and len(halves) > 1:
                yield "The resources were asked for what the question names, not for all its words."
            else:
                yield f"The resources do not answer: {_reason(record_answer)}"
        remarks = dict.fromkeys(record_answer.remarks)
        for half in halves:
            remarks |= dict.fromkeys(half.remarks)
        yield from remarks


def _verdicts(answer: Answer) -> set[str]:
    return {line.opening.says for line in answer.lines if line.opening}


def _without_verdicts(lines: Iterable[AnswerLine]) -> list[AnswerLine]:
    """Return the lines of an answer without "Yes" or "No", on which notes and resources differ."""
    plain = []
    for line in lines:
        changes = {"text": line.fact, "answering": None, "opening": None}
        plain.append(line.model_copy(update=changes))
    return plain


def _reason(answer: Answer) -> str:
    """Return the message of an answer without the lead to its lines."""
    return answer.reason or answer.message


def _join_answered_by(parts: Sequence[AnsweredBy]) -> AnsweredBy:
    """Return who answered the parts of an answer: the engine reads what notes are searched for.

    A model comes before the grammar, the grammar before the engine.
    """
    engine: str | None = None
    first: dict[str, AnsweredBy] = {}
    for part in parts:
        engine = engine or part.engine
        first.setdefault(part.reader, part)
    reader = min(first, key=["model", "grammar", "engine"].index)
    return first[reader].model_copy(update={"engine": engine})


class Lines(NamedTuple):
    """Lines of an answer with all evidence that they cite."""

    lines: tuple[AnswerLine, ...]
    evidence: tuple[Evidence, ...]


def _join_lines(answers: Sequence[Answer]) -> Lines:
    """Return the lines of several answers with their evidence.

    A line that cites nothing beyond the lines before it says the same in other words.
    """
    lines: list[AnswerLine] = []
    cited: set[str] = set()
    evidence: dict[str, Evidence] = {}
    for answer in answers:
        for line in answer.lines:
            if not line.citations or not cited.issuperset(line.citations):
                lines.append(line)
            cited.update(line.citations)
        for row in answer.evidence:
            evidence.setdefault(row.id, row)
    return Lines(tuple(lines), tuple(evidence.values()))


def reconciled(notes: Lines, resources: Lines) -> Lines:
    """Return one list of lines: a value that both have of the same day is one line that cites both."""
    dates = {row.id: row.date[:10] for row in (*notes.evidence, *resources.evidence)}
    note_lines: list[AnswerLine] = []
    merged = list(resources.lines)
    for line in notes.lines:
        for index, other in enumerate(resources.lines):
            if _is_same_value(line, other, dates):
                citations = dict.fromkeys((*merged[index].citations, *line.citations))
                merged[index] = other.model_copy(update={"citations": tuple(citations)})
                break
        else:
            note_lines.append(line)
    return Lines((*note_lines, *merged), (*notes.evidence, *resources.evidence))


def _is_same_value(
    note_line: AnswerLine, resource_line: AnswerLine, dates: dict[str, str]
) -> bool:
    """Whether two lines give one value of one thing on one day."""
    values = []
    for line in (note_line, resource_line):
        days = set(map(dates.get, line.citations)) - {None, ""}
        concepts = {match.concept.name for match in find_concepts(line.text)}
        numbers = extract_numbers(_US_DATE.sub(" ", _ISO_DATE.sub(" ", line.text)))
        values.append((days, concepts, numbers))
    (note_days, note_concepts, note_numbers), (days, concepts, numbers) = values
    if not note_days & days or not note_concepts & concepts:
        return False
    return bool(numbers) and numbers <= note_numbers


def related_facts(question: str, chart: PatientChart) -> list[Answer]:
    """Return what the resources hold on each thing that a question names, in its time.

    Answers are answered or not found; what the grammar cannot ask is left out. Of a name that means
    several things (digoxin: a drug and a level) those count which the resources have.
    """
    answers: list[Answer] = []
    for questions in _related_questions(question, chart.vocabulary, chart.now.date()):
        recorded: list[Answer] = []
        absent: list[Answer] = []
        for simple_question in questions:
            answer = answer_by_grammar(simple_question, chart.queries)
            if answer.status is Status.ANSWERED:
                recorded.append(_newest_lines(answer))
            elif answer.status is Status.NOT_FOUND:
                absent.append(answer)
        answers += recorded or absent[:1]
    return answers


def _related_questions(
    question: str, vocabulary: Vocabulary, today: date
) -> list[tuple[str, ...]]:
    """Return simple questions about the meanings of each name in a question, of three at most."""
    times = mark(question, vocabulary, today).of("span")
    time = times[0].text if len(times) == 1 else ""
    body_parts = body_part_spans(question)
    kinds: dict[tuple[int, int], dict[str, None]] = {}
    for match in find_concepts(question):
        # "The kidneys" are more than their laboratory values.
        if not any(
            start <= match.start and match.end <= end for start, end in body_parts
        ):
            kinds.setdefault((match.start, match.end), {})[match.concept.kind] = None
    questions: dict[tuple[str, ...], None] = {}
    for (start, end), kinds_of_name in kinds.items():
        meanings = []
        for kind in kinds_of_name:
            simple_question = f"{_QUESTIONS[kind].format(question[start:end])} {time}"
            meanings.append(" ".join(simple_question.split()))
        questions[tuple(meanings)] = None
    return list(questions)[:_MAX_NAMED]


def _newest_lines(answer: Answer) -> Answer:
    """Return an answer with its newest lines; how many others there are is said."""
    left_out = len(answer.lines) - _MAX_LINES
    if left_out <= 0:
        return answer
    dates = {row.id: row.date for row in answer.evidence}

    def newest_date(line: AnswerLine) -> str:
        return max((dates.get(name, "") for name in line.citations), default="")

    newest = sorted(answer.lines, key=newest_date, reverse=True)[:_MAX_LINES]
    lines = [line for line in answer.lines if line in newest]
    remark = f"{left_out} earlier lines on this are left out: ask for them by name."
    changes = {
        "lines": tuple(lines),
        "evidence": cited_evidence(lines, answer.evidence),
        "remarks": (*answer.remarks, remark),
    }
    return answer.model_copy(update=changes)


def _is_all_named(question: str, vocabulary: Vocabulary, today: date) -> bool:
    """Whether concepts, times and words that carry nothing of their own are all of a question."""
    clause = mark(question, vocabulary, today)
    if clause.words & DECIDING or any(part.kind in _LIMITING for part in clause.marks):
        return False
    concepts = [(match.start, match.end) for match in find_concepts(question)]
    remaining = blanked(question, concepts)
    for time in clause.of("span"):
        remaining = re.sub(re.escape(time.text), " ", remaining, flags=re.IGNORECASE)
    return not content_words(without_carrying_words(remaining))
