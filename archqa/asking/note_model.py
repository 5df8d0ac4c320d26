"""Answers a question about a note by a model, which then checks every line against what it cites."""

from collections.abc import Iterable

from archqa.agents.agent import RunContext
from archqa.agents.line_check import AnswerVerdict, LineCheckTask, NoteAnswerCheckAgent
from archqa.agents.note_answer import (
    NoteAnswer,
    NoteAnswerAgent,
    NoteAnswerTask,
    NoteLine,
)
from archqa.asking.answer import (
    Answer,
    AnswerLine,
    Evidence,
    Status,
    unconfirmed_answer,
)
from archqa.asking.model_answers import (
    declined_text,
    not_understood_answer,
    phrase,
    with_remarks,
)
from archqa.core.case import Case
from archqa.errors import ContextTooLong
from archqa.notes.non_evidence import headings_of_sentences
from archqa.tasks.pipeline import agents_of_questions

NOTE_MODEL = agents_of_questions(
    "note-model",
    "asking a note: an answer by a model, each line checked against what it cites",
    NoteAnswerAgent,
    NoteAnswerCheckAgent,
)


async def answer_by_model(case: Case, context: RunContext) -> Answer:
    """Return the answer to the case's clinician's question, every line checked.

    Two calls of a model, four where the check fails once; one where there are no lines. Raises
    `ContextTooLong` for a note that is too long for the model, other `CaseFailed` where its replies
    cannot be used, and `ModelError`.
    """
    try:
        return await _checked_answer(case, context)
    except ContextTooLong:
        length = len(case.note_excerpt)
        raise ContextTooLong(
            f"The note of {length:,} characters does not fit the model's context window.\n"
            "Ask without a model, name a model that reads more, or give a part of the note."
        ) from None


async def _checked_answer(case: Case, context: RunContext) -> Answer:
    """Return an answer whose lines are supported; what the check rejects is repaired once."""
    task = NoteAnswerTask.from_case(case)
    output = await NoteAnswerAgent().run(task, context)
    if output.status != "answered":
        return _unanswered(case, output)
    check = LineCheckTask.of_note(case, output.opened_lines)
    verdict = await NoteAnswerCheckAgent().run(check, context)
    if verdict.problems:
        repair = task.model_copy(
            update={"former": output.lines, "problems": verdict.problems}
        )
        output = await NoteAnswerAgent().run(repair, context)
        if output.status != "answered":
            return _unanswered(case, output)
        second = LineCheckTask.of_note(case, output.opened_lines)
        second = second.repeating(check, verdict)
        verdict = await NoteAnswerCheckAgent().run(second, context)
    return _answered(case, output, verdict)


def _answered(case: Case, output: NoteAnswer, verdict: AnswerVerdict) -> Answer:
    """Return the supported lines; none, or lines that miss the question, are not confirmed."""
    lines = []
    for line in verdict.supported(output.opened_lines):
        citations = tuple(dict.fromkeys(line.citations))
        lines.append(AnswerLine(text=" ".join(line.text.split()), citations=citations))
    if not lines or verdict.answers == "no":
        return unconfirmed_answer(
            case.clinician_question,
            [line.text for line in output.opened_lines],
            _cited(case, output.lines),
            misses=bool(lines),
        )
    answer = Answer(
        question=case.clinician_question,
        status=Status.ANSWERED,
        lines=tuple(lines),
        evidence=_cited(case, lines),
    )
    return with_remarks(answer, verdict, output.missing, len(output.lines))


def _cited(case: Case, lines: Iterable[AnswerLine | NoteLine]) -> tuple[Evidence, ...]:
    """Return the sentences that lines cite, in the order of the note."""
    cited: set[str] = set()
    for line in lines:
        cited.update(line.citations)
    headings = headings_of_sentences(case)
    evidence = []
    for index, sentence in enumerate(case.sentences):
        if sentence.id in cited:
            evidence.append(Evidence.of_sentence(sentence, headings.get(index, "")))
    return tuple(evidence)


def _unanswered(case: Case, output: NoteAnswer) -> Answer:
    question = case.clinician_question
    if output.status == "declined":
        return Answer(
            question=question,
            status=Status.DECLINED,
            message=declined_text("note", output.missing),
        )
    if output.status == "not_understood":
        return not_understood_answer(question, output.not_understood)
    count = len(case.sentences)
    searched = "its one sentence" if count == 1 else f"all its {count} sentences"
    phrases = [output.missing, *(line.text for line in output.nearest)]
    what = "; ".join(map(phrase, filter(str.strip, phrases)))
    return Answer(
        question=question,
        status=Status.NOT_FOUND,
        message=f"Not stated in the note: {what} (searched: {searched}).",
        related=_cited(case, output.nearest),
    )
