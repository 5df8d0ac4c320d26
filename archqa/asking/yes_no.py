"""Whether the evidence says yes or no to a yes/no question.

A wrong yes or no is worse than none: where the polarity of the sentence that answers cannot be
read with good certainty, nothing is said and the sentence speaks for itself.
"""

from collections.abc import Sequence

from archqa.asking.question_form import is_yes_no_question, question_form
from archqa.asking.sentence_reading import SentenceReading
from archqa.asking.verdicts import YesNo, only_verdict

__all__ = ["YesNo", "is_yes_no_question", "yes_no_answer"]


def yes_no_answer(question: str, evidence: Sequence[str]) -> YesNo | None:
    """Return what the evidence, the best sentence first, says; None if that is not certain.

    NOT_STATED is said where the evidence leaves the matter open or tells it of a relative only.
    """
    if not is_yes_no_question(question):
        return None
    form = question_form(question)
    verdicts = [SentenceReading(question, form, sentence).verdict() for sentence in evidence]
    return only_verdict(verdict for verdict in verdicts if verdict is not None)
