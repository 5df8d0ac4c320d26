"""Answers questions about notes: by a model if one is set up, else by the embedded engine, in whole sentences."""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from archqa.asking.answer import (
    Answer,
    AnsweredBy,
    AnsweredQuestion,
    AnswerLine,
    AnswerSpan,
    Evidence,
    Opening,
    Status,
)
from archqa.asking.question import ModelBackends, Question, StepLog, asks_model
from archqa.asking.question_parts import question_parts
from archqa.asking.spelling import spelling_corrections
from archqa.chart.search_terms import rarity, search_terms
from archqa.core.case import Case, Sentence
from archqa.core.step import Step
from archqa.engine.answer_finder import AnswerFinder, Finding
from archqa.engine.encoders import OnProgress
from archqa.engine.windows import tokenize_text
from archqa.errors import CallerError, ServerUnavailable
from archqa.notes.assertion import Judgement, Mismatch, Naming, leans_on_before
from archqa.notes.language import OTHER_LANGUAGE, is_english
from archqa.notes.non_evidence import headings_of_sentences, non_evidence_indices
from archqa.notes.question_form import is_judgement
from archqa.notes.sections import section_kind, text_without_list_marker
from archqa.notes.sentences import case_from_text
from archqa.notes.yes_no import YesNo, yes_no_answer
from archqa.settings import Settings
from archqa.terminology.words import stems

if TYPE_CHECKING:
    from archqa.runs.destinations import Destination

MIN_WORDS_TO_MARK = 41
"""Words from which on the part of a line that answers is marked."""
MAX_FRAGMENT_WORDS = 12
"""Words of a phrase without a verb that leans on its heading ("Motrin 800 mg t.i.d.")."""

ScoredClause = tuple[int, int, float]
"""Start and exclusive end in the sentence's text, and how well these characters answer."""
ClauseRelevance = Callable[[int], Sequence[ScoredClause]]
"""The scored clauses of the sentence at an index of the case."""

_OWN_LABEL = re.compile(r"^\s*(?:[-*•]\s*)?(?:\d+[.)]\s*)?[A-Za-z][^:.!?|]{0,60}:\s*\S")
_LIST_ITEM = re.compile(r"^\s*(?:[-*•·–]\s|\d{1,2}[.)]\s)")
_TABLE_ROW = re.compile(r"\t| {3}|\S\s*+\|\s*+\S")
_VERB = re.compile(
    r"\b(?:is|are|was|were|be|been|has|have|had|do|does|did|will|would|can|could|may|might|should"
    r"|den(?:y|ies)|shows?|states?|reports?|takes?|continues?|remains?|presents?|appears?|underwent"
    r"|\w{3,}ed)\b",
    re.IGNORECASE,
)
_KINDS_THAT_TELL_OF_WHOM = {"history", "family", "social", "allergies"}
_HEADING_MARKS = re.compile(
    r"^[\s#*=_-]+(?::[\s:#*=_-]*$)?|(?<![\s:#*=_-])[\s:#*=_-]+$"
)


def answer_lines(
    case: Case,
    selected: Sequence[int],
    headings: Mapping[int, str],
    opening: YesNo | None = None,
    clause_relevance: ClauseRelevance = lambda _: (),
) -> tuple[AnswerLine, ...]:
    """Return a line for each sentence of `selected` (indices of the case, the best one first).

    Sentences that follow each other and lean on one another stay in the order of the note. The
    heading (`headings`, by index) stands before an item that cannot be understood without it. In a
    long line the clause that scores best is marked.
    """
    lines: list[AnswerLine] = []
    for index in _order_for_reading(case, selected):
        sentence = case.sentences[index]
        text, offsets = _with_single_spaces(sentence.text)
        heading = _heading_prefix(sentence, headings.get(index, ""))
        if heading:
            item = text_without_list_marker(sentence)
            if item and text.endswith(item):
                offsets = offsets[len(text) - len(item) :]
                text = item
        prefix = heading
        if opening is not None and not lines:
            prefix = f"{opening.opening}{heading}"
        answering = None
        if len(text.split()) >= MIN_WORDS_TO_MARK:
            answering = _best_clause(
                clause_relevance(index), text, offsets, len(prefix)
            )
        text = f"{prefix}{text}"
        lines.append(
            AnswerLine(
                text=text,
                citations=(sentence.id,),
                answering=answering,
                opening=None if lines else line_opening(opening),
            )
        )
    return tuple(lines)


def line_opening(opening: YesNo | None) -> Opening | None:
    """Return the words with which a line begins that answers yes or no."""
    return Opening(opening.opening, opening.value.lower()) if opening else None


def read_opening(
    question: str,
    case: Case,
    selected: Sequence[int],
    headings: Mapping[int, str],
    best: Judgement | None,
) -> YesNo | None:
    """Return what the selected sentences say to a yes/no question, None where that is not certain.

    Where only its name speaks for the best sentence, it is shown without a Yes or No.
    """
    verdict = yes_no_answer(question, texts_with_headings(case, selected, headings))
    is_backed = best is not None and best.is_backed
    return verdict if is_backed or verdict is YesNo.UNCERTAIN else None


def texts_with_headings(
    case: Case, selected: Sequence[int], headings: Mapping[int, str]
) -> list[str]:
    """Return the sentences of `selected` as `yes_no_answer` reads them.

    A heading that says of whom or of what time the sentence tells ("Family history", "Past medical
    history") or what it lists ("Allergies") stands before it.
    """
    texts = []
    for index in selected:
        sentence, heading = case.sentences[index], headings.get(index, "")
        prefix = _heading_prefix(sentence, heading)
        if not prefix and section_kind(heading) in _KINDS_THAT_TELL_OF_WHOM:
            prefix = f"{_HEADING_MARKS.sub('', heading)}: "
        texts.append(prefix + " ".join(sentence.text.split()))
    return texts


def _order_for_reading(case: Case, selected: Sequence[int]) -> list[int]:
    """Return the indices, the best one first, but what leans on the sentence before it after that."""
    chosen = set(selected)
    ordered: list[int] = []
    for index in selected:
        first = index
        while leans_on_before(case, first) and first - 1 in chosen:
            first -= 1
        while first in chosen and first not in ordered:
            ordered.append(first)
            first += 1
            if first >= len(case.sentences) or not leans_on_before(case, first):
                break
    return ordered


def _heading_prefix(sentence: Sentence, heading: str) -> str:
    """Return "Heading: " in the heading's own words, "" where the sentence stands by itself."""
    title = _HEADING_MARKS.sub("", " ".join(heading.split()))
    if not title:
        return ""
    text = sentence.text
    if not _TABLE_ROW.search(text.strip()):
        if _OWN_LABEL.match(text) or _VERB.search(text):
            return ""
        if not _LIST_ITEM.match(text) and len(text.split()) > MAX_FRAGMENT_WORDS:
            return ""
    title_words = set(stems(title))
    if title_words and title_words <= set(stems(text)):
        return ""
    return f"{title}: "


def _with_single_spaces(text: str) -> tuple[str, list[int]]:
    """A text with single spaces, and the places of its characters in the text as it was."""
    characters: list[str] = []
    offsets: list[int] = []
    for match in re.finditer(r"\S+", text):
        if characters:
            characters.append(" ")
            offsets.append(match.start() - 1)
        characters += match[0]
        offsets += range(match.start(), match.end())
    return "".join(characters), offsets


def _best_clause(
    clauses: Sequence[ScoredClause], text: str, offsets: Sequence[int], shift: int
) -> AnswerSpan | None:
    """Where the clause that scores above all others stands in the line, None for the whole line.

    `offsets` are the places of the characters of `text` in the sentence, `shift` is how far it
    stands from the beginning of the line.
    """
    ranked = sorted(clauses, key=lambda clause: -clause[2])
    if not ranked or (len(ranked) > 1 and ranked[0][2] <= ranked[1][2]):
        return None
    start, end, _ = ranked[0]
    places = []
    for place, offset in enumerate(offsets):
        if start <= offset < end and text[place] != " ":
            places.append(place)
    if not places or places[-1] - places[0] + 1 >= len(text):
        return None
    return AnswerSpan(shift + places[0], shift + places[-1] + 1)


_PARTLY_READ = (
    "The note is long: only the parts that name most of what is asked were read."
)

AGENT = "note_answer"
"""The agent that answers where a model is set up."""


def note_case(question: str, note: str) -> Case:
    """Return the case of a question and a note, without a patient's message.

    Raises `CallerError` if either has no word.
    """
    return case_from_text(question, note).model_copy(update={"patient_narrative": ""})


async def answer_from_note(
    question: Question, models: ModelBackends
) -> AnsweredQuestion:
    """Return the answer to a question about a note, with the sentences it rests on.

    Raises `CallerError` for an empty question or note, `CaseFailed` if a model gives no usable
    answer, `ModelError` and `BudgetExceeded`.
    """
    case = note_case(question.text, question.note or "")
    if not asks_model(question.settings, AGENT, question.options.scripted):
        return await _answered_by_engine(question, case)

    from archqa.asking.note_model import NOTE_MODEL, answer_by_model

    backends = models.open(NOTE_MODEL)
    steps = StepLog(question.options.on_step)
    try:
        answer = await answer_by_model(case, backends.context(steps))
    except ServerUnavailable as failure:
        if question.options.limits is not None:
            raise  # Of many questions, those that were not asked are asked again later.
        fault = str(failure).splitlines()[0].rstrip(".")
        remark = f"The engine inside archqa answered, since no model could: {fault}."
        return await _answered_by_engine(question, case, remark)
    return AnsweredQuestion(steps.answer_of(backends, answer), case)


async def _answered_by_engine(
    question: Question, case: Case, *remarks: str
) -> AnsweredQuestion:
    answer = await asyncio.to_thread(
        answer_by_engine, case, question.options.on_progress
    )
    question.options.on_step(Step(agent="note_search", backend="embedded"))
    answer = naming_other_language(answer, case.note_excerpt)
    remarks = (*answer.remarks, *remarks)
    return AnsweredQuestion(answer.model_copy(update={"remarks": remarks}), case)


def naming_other_language(answer: Answer, note: str) -> Answer:
    """Return an answer of the engine that begins with a warning where its note is not in English."""
    if is_english(note) is not False:
        return answer
    message = f"{OTHER_LANGUAGE} {answer.message}".strip()
    return answer.model_copy(update={"message": message})


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


def note_destinations(settings: Settings) -> "tuple[Destination, ...]":
    """Where a question about a note sends its text."""
    if not asks_model(settings, AGENT):
        return ()
    from archqa.asking.note_model import NOTE_MODEL
    from archqa.runs.destinations import run_destinations

    return run_destinations(settings.replace(record=None), NOTE_MODEL)


def answer_by_engine(
    case: Case, on_progress: OnProgress = lambda _done, _total: None
) -> Answer:
    """Return the answer to the case's clinician's question, whole sentences of its note.

    Of a question of several parts each is answered; a remark names the parts that are not. The
    first line of an answer to a yes/no question begins with "Yes", "No", "Uncertain" or "Not
    stated" where the polarity can be read. A question without a word is not understood; a
    judgement that the note does not state is declined.
    """
    question = case.clinician_question
    parts = question_parts(question).parts
    if len(parts) == 1:
        return _answer_part(case, on_progress)
    answers = []
    for part in parts:
        part_of_case = case.model_copy(update={"clinician_question": part})
        answers.append(_answer_part(part_of_case, on_progress))
    answered = [answer for answer in answers if answer.status is Status.ANSWERED]
    if not answered:
        return answers[0].model_copy(update={"question": question})
    lines: dict[str, AnswerLine] = {}
    evidence: dict[str, Evidence] = {}
    remarks: dict[str, None] = {}
    for answer in answers:
        remarks.update(dict.fromkeys(answer.remarks))
        if answer.status is not Status.ANSWERED:
            remarks[f'Not answered: "{answer.question}".'] = None
        for line in answer.lines:
            lines.setdefault(line.fact, line)
        evidence.update({piece.id: piece for piece in answer.evidence})
    return answered[0].model_copy(
        update={
            "question": question,
            "lines": tuple(lines.values()),
            "evidence": tuple(evidence.values()),
            "remarks": tuple(remarks),
            "is_partial": len(answered) < len(answers),
        }
    )


def _answer_part(case: Case, on_progress: OnProgress) -> Answer:
    question = case.clinician_question
    letters_and_digits = "".join(filter(str.isalnum, question))
    if not tokenize_text(letters_and_digits):  # A text of marks alone asks nothing.
        return Answer(
            question=question,
            status=Status.NOT_UNDERSTOOD,
            message="The question has no word that the engine can read.",
            not_understood=tuple(question.split()),
            answered_by=AnsweredBy(reader="engine"),
        )
    corrections = spelling_corrections(question, case)
    read_question = question
    for written, word in corrections.items():
        read_question = re.sub(rf"\b{written}\b", word, read_question)
    finder = AnswerFinder.load()
    finding = finder.find(
        case.model_copy(update={"clinician_question": read_question}),
        non_evidence_indices(case),
        lambda: _relevance(case),
        on_progress,
    )
    remarks = [f'Read "{old}" as "{new}".' for old, new in corrections.items()]
    answered_by = AnsweredBy(reader="engine", engine=finder.fingerprint[:12])
    if finding.unread:
        remarks.append(_PARTLY_READ)
    if not finding.is_answered:
        count = len(case.sentences)
        sentences = "one sentence" if count == 1 else f"{count:,} sentences"
        read = f"{count - finding.unread:,} of " if finding.unread else ""
        status = Status.NOT_FOUND
        message = f"No answer found in {read}the note's {sentences}."
        if is_judgement(question):
            status = Status.DECLINED
            message = f"This asks for a judgement, which is not made. {message}"
        return Answer(
            question=question,
            status=status,
            message=message,
            related=tuple(_evidence(case, finding, finding.nearest)),
            remarks=(*remarks, *_near_miss(finding)),
            answered_by=answered_by,
        )
    headings = headings_of_sentences(case)
    best = finding.judgements.get(finding.selected[0])
    opening = read_opening(read_question, case, finding.selected, headings, best)
    return Answer(
        question=question,
        status=Status.ANSWERED,
        lines=answer_lines(
            case, finding.selected, headings, opening, finding.clauses_of
        ),
        evidence=tuple(_evidence(case, finding, sorted(finding.selected))),
        remarks=tuple(remarks),
        answered_by=answered_by,
    )


def _near_miss(finding: Finding) -> Iterator[str]:
    """Yield why the nearest passage does not answer."""
    judgement = finding.judgements.get(finding.nearest[0]) if finding.nearest else None
    if judgement is None or judgement.naming is not Naming.NAMED:
        return
    for mismatch in Mismatch:
        if mismatch in judgement.mismatches:
            yield f"The nearest passage {mismatch}."
            return


def _evidence(
    case: Case, finding: Finding, indices: Sequence[int]
) -> Iterator[Evidence]:
    headings = headings_of_sentences(case)
    for index in indices:
        yield Evidence.of_sentence(
            case.sentences[index],
            headings.get(index, ""),
            probability=float(finding.probabilities[index]),
        )


def _relevance(case: Case) -> list[float]:
    """Return how much of what is asked each sentence names; rare terms count more."""
    words = [frozenset(stems(sentence.text)) for sentence in case.sentences]
    relevance = [0.0] * len(words)
    for term in search_terms(case.clinician_question):
        naming = [index for index, stemmed in enumerate(words) if term.is_in(stemmed)]
        for index in naming:
            relevance[index] += rarity(len(words), len(naming))
    return relevance
