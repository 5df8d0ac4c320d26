"""Answers questions about notes: by a model if one is set up, else by the embedded engine."""

from collections.abc import Mapping

from archqa.asking.answer import Answer, AnsweredBy, AnsweredQuestion, Evidence, Status
from archqa.asking.judgements import is_judgement
from archqa.asking.lines import answer_lines, texts_with_headings
from archqa.asking.models import ModelBackends, asks_model, model_name
from archqa.asking.question import Question
from archqa.asking.yes_no import yes_no_answer
from archqa.core.case import Case
from archqa.core.step import Step
from archqa.core.usage import Usage, sum_usage
from archqa.engine.answer_finder import AnswerFinder, Finding
from archqa.engine.windows import tokenize_text
from archqa.errors import CallerError
from archqa.notes.language import OTHER_LANGUAGE_REMARK, is_english
from archqa.notes.non_evidence import headings_of_sentences, non_evidence_indices
from archqa.notes.sentences import case_from_text
from archqa.runs.destinations import Destination
from archqa.settings import Settings

AGENT = "note_answer"
"""The agent that answers where a model is set up."""


def note_case(question: str, note: str) -> Case:
    """Return the case of a question and a note, without a patient's message.

    Raises `CallerError` if either has no word.
    """
    return case_from_text(question, note).model_copy(update={"patient_narrative": ""})


async def answer_from_note(question: Question, models: ModelBackends) -> AnsweredQuestion:
    """Return the answer to a question about a note, with the sentences it rests on.

    Raises `CallerError` for an empty question or note, `CaseFailed` if a model gives no usable
    answer, `ModelError` and `BudgetExceeded`.
    """
    case = note_case(question.text, question.note or "")
    if asks_model(question.settings, AGENT, question.options.scripted):
        answer = await _answer_by_model(case, question, models)
    else:
        answer = answer_by_engine(case)
        question.options.on_step(Step(agent="note_search", backend="embedded"))
        if is_english("\n".join(sentence.text for sentence in case.sentences)) is False:
            answer = answer.model_copy(update={"remarks": (*answer.remarks, OTHER_LANGUAGE_REMARK)})
    return AnsweredQuestion(answer, case)


async def _answer_by_model(case: Case, question: Question, models: ModelBackends) -> Answer:
    from archqa.asking.note_model import NOTE_MODEL, answer_by_model

    backends = models.open(NOTE_MODEL)
    usages: list[Usage] = []

    def on_step(step: Step) -> None:
        usages.append(step.usage)
        question.options.on_step(step)

    answer = await answer_by_model(case, backends.context(on_step))
    changes = {
        "remarks": (*answer.remarks, *backends.remarks),
        "usage": sum_usage(usages),
        "answered_by": AnsweredBy(reader="model", model=model_name(backends)),
    }
    return answer.model_copy(update=changes)


def check_note_settings(settings: Settings) -> None:
    """Raise `CallerError` for settings that have no effect on a question about a note."""
    if "pipeline" in settings.typed_names:
        raise CallerError(
            "A question about a note is answered by no pipeline: `pipeline` has no effect.\n"
            "Leave it out; --model or --base-url lets a model answer."
        )
    if settings.typed_names:
        from archqa.asking.note_model import NOTE_MODEL
        from archqa.runs.settings_check import check_settings_used

        check_settings_used(settings, NOTE_MODEL)


def note_destinations(settings: Settings) -> tuple[Destination, ...]:
    """Where a question about a note sends its text."""
    if not asks_model(settings, AGENT):
        return ()
    from archqa.asking.note_model import NOTE_MODEL
    from archqa.runs.destinations import run_destinations

    return run_destinations(settings.replace(record=None), NOTE_MODEL)


def answer_by_engine(case: Case) -> Answer:
    """Return the answer to the case's clinician's question, whole sentences of its note.

    The first line of an answer to a yes/no question begins with "Yes", "No" or "Not stated" where
    the polarity can be read. A question without a word is not understood; a judgement that the note
    does not state is declined.
    """
    question = case.clinician_question
    letters_and_digits = "".join(character for character in question if character.isalnum())
    if not tokenize_text(letters_and_digits):  # A text of marks alone asks nothing.
        return Answer(
            question=question,
            status=Status.NOT_UNDERSTOOD,
            message="The question has no word that the engine can read.",
            not_understood=tuple(question.split()),
            answered_by=AnsweredBy(reader="engine"),
        )
    finder = AnswerFinder.load()
    finding = finder.find(case, non_evidence_indices(case))
    answered_by = AnsweredBy(reader="engine", engine=finder.fingerprint[:12])
    if not finding.is_answered:
        return _unanswered(case, answered_by)
    headings = headings_of_sentences(case)
    texts = texts_with_headings(case, finding.selected, headings)
    return Answer(
        question=question,
        status=Status.ANSWERED,
        lines=answer_lines(
            case,
            finding.selected,
            headings,
            yes_no_answer(question, texts),
            finding.clauses_of,
        ),
        evidence=_evidence(case, finding, headings),
        answered_by=answered_by,
    )


def _unanswered(case: Case, answered_by: AnsweredBy) -> Answer:
    """Return the answer of a note that holds none: declined where a judgement is asked."""
    count = len(case.sentences)
    sentences = "its one sentence does" if count == 1 else f"none of its {count} sentences does"
    status = Status.NOT_FOUND
    message = f"Not stated: the note does not answer this, {sentences}."
    if is_judgement(case.clinician_question):
        status = Status.DECLINED
        message = f"This asks for a judgement, which is not made; the note states none. {message}"
    return Answer(
        question=case.clinician_question,
        status=status,
        message=message,
        answered_by=answered_by,
    )


def _evidence(case: Case, finding: Finding, headings: Mapping[int, str]) -> tuple[Evidence, ...]:
    evidence: list[Evidence] = []
    for index in sorted(finding.selected):
        sentence = case.sentences[index]
        line = Evidence(
            id=sentence.id,
            kind="sentence",
            text=sentence.text,
            start_char_index=sentence.start_char_index,
            probability=float(finding.probabilities[index]),
            heading=headings.get(index, ""),
        )
        evidence.append(line)
    return tuple(evidence)
