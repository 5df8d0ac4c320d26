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
from archqa.core.case import Case
from archqa.core.id_lists import list_ids
from archqa.errors import ContextTooLong
from archqa.notes.non_evidence import headings_of_sentences
from archqa.tasks.pipeline import agents_of_questions

REMOVED = "Lines were left out that the sentences they cite do not support."
PARTLY_ANSWERED = "The lines answer only a part of the question."


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


NOTE_MODEL = agents_of_questions(
    "note-model",
    "asking a note: an answer by a model, each line checked against what it cites",
    NoteAnswerAgent,
    NoteAnswerCheckAgent,
)


async def _checked_answer(case: Case, context: RunContext) -> Answer:
    """Return an answer whose lines are supported; what the check rejects is repaired once."""
    task = NoteAnswerTask.from_case(case)
    output = await NoteAnswerAgent().run(task, context)
    if output.status != "answered":
        return _unanswered(case, output)
    verdict = await _check(case, output, context)
    if verdict.problems:
        repair = task.model_copy(
            update={"former": output.lines, "problems": verdict.problems}
        )
        output = await NoteAnswerAgent().run(repair, context)
        if output.status != "answered":
            return _unanswered(case, output)
        verdict = await _check(case, output, context)
    return _answered(case, output, verdict)


async def _check(case: Case, output: NoteAnswer, context: RunContext) -> AnswerVerdict:
    task = LineCheckTask.of_note(case, output.opened_lines)
    return await NoteAnswerCheckAgent().run(task, context)


def _answered(case: Case, output: NoteAnswer, verdict: AnswerVerdict) -> Answer:
    """Return the supported lines; none, or lines that miss the question, are not confirmed."""
    lines = []
    for number, line in enumerate(output.opened_lines, start=1):
        if str(number) in verdict.supported:
            citations = tuple(dict.fromkeys(line.citations))
            lines.append(
                AnswerLine(text=" ".join(line.text.split()), citations=citations)
            )
    if not lines or verdict.answers == "no":
        return unconfirmed_answer(
            case.clinician_question,
            [line.text for line in output.opened_lines],
            _cited(case, output.lines),
            misses=bool(lines),
        )
    remarks = []
    if len(lines) < len(output.lines):
        remarks.append(REMOVED)
    is_partial = True
    if output.missing.strip():
        remarks.append(f"Not stated: {_phrase(output.missing)}.")
    elif verdict.answers == "partly":
        remarks.append(PARTLY_ANSWERED)
    else:
        is_partial = False
    return Answer(
        question=case.clinician_question,
        status=Status.ANSWERED,
        lines=tuple(lines),
        evidence=_cited(case, lines),
        remarks=tuple(remarks),
        is_partial=is_partial,
    )


def _cited(case: Case, lines: Iterable[AnswerLine | NoteLine]) -> tuple[Evidence, ...]:
    """Return the sentences that lines cite, in the order of the note."""
    cited: set[str] = set()
    for line in lines:
        cited.update(line.citations)
    headings = headings_of_sentences(case)
    evidence = []
    for index, sentence in enumerate(case.sentences):
        if sentence.id in cited:
            piece = Evidence(
                id=sentence.id,
                kind="sentence",
                text=sentence.text,
                start_char_index=sentence.start_char_index,
                heading=headings.get(index, ""),
            )
            evidence.append(piece)
    return tuple(evidence)


def _unanswered(case: Case, output: NoteAnswer) -> Answer:
    if output.status == "not_found":
        return _not_found(case, output)
    question = case.clinician_question
    if output.status == "declined":
        return Answer(
            question=question,
            status=Status.DECLINED,
            message="This asks for a judgement that the note does not state and that is not made "
            f"here: {_phrase(output.missing)}.",
        )
    words = []
    quoted = []
    for phrase in filter(str.strip, output.not_understood):
        word = " ".join(phrase.split())
        words.append(word)
        quoted.append(f'"{word}"')
    return Answer(
        question=question,
        status=Status.NOT_UNDERSTOOD,
        message=f"Not understood: {list_ids(quoted)}.",
        not_understood=tuple(words),
    )


def _not_found(case: Case, output: NoteAnswer) -> Answer:
    count = len(case.sentences)
    searched = "its one sentence" if count == 1 else f"all its {count} sentences"
    phrases = [output.missing, *(line.text for line in output.nearest)]
    what = "; ".join(map(_phrase, filter(str.strip, phrases)))
    return Answer(
        question=case.clinician_question,
        status=Status.NOT_FOUND,
        message=f"Not stated in the note: {what} (searched: {searched}).",
        related=_cited(case, output.nearest),
    )


def _phrase(words: str) -> str:
    """Return a phrase on one line, without the full stop that a model may have set."""
    return " ".join(words.split()).rstrip(".")
