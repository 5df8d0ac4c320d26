"""Answers a question about a note by the embedded engine: no model server, no network."""

from collections.abc import Mapping

from archqa.asking.answer import Answer, Evidence, Status
from archqa.asking.judgements import is_judgement
from archqa.asking.lines import answer_lines, texts_with_headings
from archqa.asking.yes_no import yes_no_answer
from archqa.core.case import Case
from archqa.engine.answer_finder import AnswerFinder, Finding
from archqa.engine.wordpiece import tokenize_text
from archqa.notes.non_evidence import headings_of_sentences, non_evidence_indices


def answer_by_engine(case: Case) -> Answer:
    """Return the answer to the case's clinician's question, whole sentences of its note.

    The first line of an answer to a yes/no question begins with "Yes", "No" or "Not stated" where
    the polarity can be read. A question without a word is not understood; a judgement that the note
    does not state is declined.
    """
    question = case.clinician_question
    if not tokenize_text(_without_marks(question)):
        return _not_understood(question)
    finder = AnswerFinder.load()
    finding = finder.find(case, non_evidence_indices(case))
    performer = f"embedded:{finder.fingerprint[:12]}"
    if not finding.is_answered:
        return _unanswered(case, performer)
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
        performer=performer,
    )


def _not_understood(question: str) -> Answer:
    return Answer(
        question=question,
        status=Status.NOT_UNDERSTOOD,
        message="The question has no word that the engine can read.",
        not_understood=tuple(question.split()),
        performer="embedded",
    )


def _unanswered(case: Case, performer: str) -> Answer:
    """Return the answer of a note that holds none: declined where a judgement is asked."""
    count = len(case.sentences)
    sentences = "its one sentence does" if count == 1 else f"none of its {count} sentences does"
    status = Status.NOT_FOUND
    message = f"Not stated: the note does not answer this, {sentences}."
    if is_judgement(case.clinician_question):
        status = Status.DECLINED
        message = f"This asks for a judgement, which is not made; the note states none. {message}"
    return Answer(
        question=case.clinician_question, status=status, message=message, performer=performer
    )


def _without_marks(question: str) -> str:
    """Return the question's letters and digits: a text of marks alone asks nothing."""
    return "".join(character for character in question if character.isalnum())


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
