"""Last of the six: the answer as it is handed in (paper §3.2, Final Answer Generation; §4.3.2 for the two strategies).

`Compress` shortens a cited answer to the word limit; `Summary` writes one from the chosen sentences alone.
`question_and_evidence` is the paper's submitted form and needs no model.
"""

from archqa.agents.base import Agent, CaseTask
from archqa.agents.writing import Lines, check_citations, check_lines, check_words, restricted
from archqa.core.answer import WORD_LIMIT, CitedAnswer, Claim
from archqa.core.case import Case


class CompressTask(CaseTask):
    """A cited answer that is too long."""

    draft: CitedAnswer
    word_limit: int = WORD_LIMIT


class Compress(Agent[CompressTask, Lines]):
    """Says the same in fewer words, keeping every citation."""

    name = "answer"
    prompt = "compress/v1"
    takes = CompressTask
    returns = Lines

    def check(self, task: CompressTask, output: Lines) -> None:
        """Short enough, and nothing cited is lost or added."""
        answer = output.as_answer()
        check_lines(task.case, answer)
        check_words(answer, task.word_limit)
        check_citations(answer, task.draft.cited)

    def mend(self, task: CompressTask, output: Lines) -> Lines | None:
        """A short answer that lost a citation is better than none; one that is too long is not."""
        return _shortened(output, task.draft.cited, task.word_limit)


class SummaryTask(CaseTask):
    """The sentences an answer is to be written from."""

    essential: tuple[str, ...]
    word_limit: int = WORD_LIMIT


class Summary(Agent[SummaryTask, Lines]):
    """Writes a short answer in its own words from the essential sentences (paper Table 2, second row)."""

    name = "answer"
    prompt = "summary/v1"
    takes = SummaryTask
    returns = Lines

    def check(self, task: SummaryTask, output: Lines) -> None:
        """Short enough, and resting on the essential sentences, all of them."""
        answer = output.as_answer()
        check_lines(task.case, answer)
        check_words(answer, task.word_limit)
        check_citations(answer, frozenset(task.essential))

    def mend(self, task: SummaryTask, output: Lines) -> Lines | None:
        """As for `Compress`."""
        return _shortened(output, frozenset(task.essential), task.word_limit)


def question_and_evidence(case: Case, essential: frozenset[str]) -> CitedAnswer:
    """The questions and the chosen sentences, uncut, every id on the last line (paper Table 2, first row).

    The scorer cuts it to 75 words, citations surviving the cut; the questions alone are often longer.
    """
    chosen = case.in_note_order(essential)
    texts = [case.patient_narrative, case.clinician_question, *(case.text_of[each] for each in chosen)]
    # The scorer reads from the last pipe of a line, so a pipe in the text would be read as a citation mark.
    lines = [" ".join(text.replace("|", "/").split()) for text in texts if text.strip()]
    return CitedAnswer(
        claims=(*(Claim(text=line, citations=()) for line in lines[:-1]), Claim(text=lines[-1], citations=chosen))
    )


def _shortened(output: Lines, allowed: frozenset[str], word_limit: int) -> Lines | None:
    answer = restricted(output.as_answer(), allowed)
    return Lines.of(answer) if answer is not None and answer.words <= word_limit else None
