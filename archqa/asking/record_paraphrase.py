"""Questions in free words: what the grammar reads without words that carry nothing, if sure.

Two must agree: the grammar reads the question without its harmless words, and the question tagger,
which reads all its words, is sure that it has the frame of that reading.
"""

from collections.abc import Callable, Iterable
from datetime import date
from functools import partial
from typing import Protocol

from archqa.query.everyday import Understood, Vocabulary
from archqa.query.paraphrase.reduction import Reduction, reduce_question
from archqa.query.paraphrase.skeleton import fits, frame_of


class Tagger(Protocol):
    """What confirms that a question has a frame."""

    def confirms(
        self, frame: str, text: str, clues: Iterable[str], possible: Callable[[str], bool]
    ) -> bool:
        """Whether a question surely has a frame."""
        ...


def read_paraphrase(
    question: str, vocabulary: Vocabulary, today: date, tagger: Tagger | None = None
) -> Understood | None:
    """Read a question that the grammar does not understand; None if that is not sure.

    The tagger is loaded only for a question whose unknown words are all harmless.
    """
    reduction = reduce_question(question, vocabulary, today)
    if reduction is None or reduction.reading is None:
        return None
    tagger = tagger or _shipped_tagger()
    return reduction.reading if _is_sure(reduction, tagger) else None


def _is_sure(reduction: Reduction, tagger: Tagger) -> bool:
    frame = frame_of(reduction.skeleton)
    kinds = reduction.wording.kinds
    return tagger.confirms(frame, reduction.text, reduction.clues, partial(_fits, kinds))


def _fits(kinds: tuple[str, ...], frame: str) -> bool:
    return fits(frame, kinds)


def _shipped_tagger() -> Tagger:
    from archqa.engine.question_tagger import QuestionTagger

    return QuestionTagger.load()
