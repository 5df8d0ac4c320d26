"""Training questions of the grammar as examples of the engine's tagger, which know no grammar."""

from archqa.engine.training.tagger_training import TaggerExample
from archqa.query.paraphrase.examples import Corpus, Example
from archqa.query.paraphrase.skeleton import factors_of, fits


def tagger_examples(corpus: Corpus) -> list[TaggerExample]:
    """Return the examples; only of questions that the grammar does not read an answer is at stake."""
    frames = frames_of(corpus)
    return [_tagger_example(each, frames) for each in corpus.examples]


def frames_of(corpus: Corpus) -> list[str]:
    """Return all frames of the labels."""
    return sorted({each.frame for each in corpus.examples if each.frame})


def parts_of(frame: str) -> tuple[str, ...]:
    """Return the parts of a frame."""
    return factors_of(frame)


def _tagger_example(example: Example, frames: list[str]) -> TaggerExample:
    reduction = example.reduction
    kinds = reduction.wording.kinds
    return TaggerExample(
        text=reduction.text,
        clues=reduction.clues,
        frame=example.frame,
        possible=frozenset(frame for frame in frames if fits(frame, kinds)),
        group=example.group,
        source=example.source,
        reduced=example.reduced if example.is_left_over else "",
        is_left_over=example.is_left_over,
    )
