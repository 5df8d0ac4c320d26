"""Answers a question about a note by the embedded engine: no model server, no network."""

from archqa.asking.answer import Answer, AnswerLine, Evidence, Status
from archqa.asking.lines import answer_lines
from archqa.asking.yes_no import YesNo, yes_no_answer
from archqa.core.case import Case
from archqa.engine.answer_finder import AnswerFinder, Finding
from archqa.notes.non_evidence import headings_of_sentences, non_evidence_indices


def answer_by_engine(case: Case) -> Answer:
    """Return the answer to the case's clinician's question, whole sentences of its note.

    The first line of an answer to a yes/no question begins with "Yes", "No" or "Not stated".
    """
    finder = AnswerFinder.load()
    finding = finder.find(case, non_evidence_indices(case))
    performer = f"embedded:{finder.fingerprint[:12]}"
    if not finding.is_answered:
        return _not_found(case, performer)
    question = case.clinician_question
    texts = [case.sentences[index].text for index in finding.selected]
    lines = _lines(case, finding, yes_no_answer(question, texts))
    return Answer(
        question=question,
        status=Status.ANSWERED,
        lines=lines,
        evidence=_evidence(case, finding),
        performer=performer,
    )


def _not_found(case: Case, performer: str) -> Answer:
    count = len(case.sentences)
    sentences = "its one sentence does" if count == 1 else f"none of its {count} sentences does"
    return Answer(
        question=case.clinician_question,
        status=Status.NOT_FOUND,
        message=f"Not stated: the note does not answer this, {sentences}.",
        performer=performer,
    )


def _lines(case: Case, finding: Finding, opening: YesNo | None) -> tuple[AnswerLine, ...]:
    return answer_lines(case, finding.selected, headings_of_sentences(case), opening)


def _evidence(case: Case, finding: Finding) -> tuple[Evidence, ...]:
    headings = headings_of_sentences(case)
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
