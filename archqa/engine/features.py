"""One row of numbers for each sentence of a case: all that the model knows of it.

Columns are named `group.name`; the names are stored with the fitted model, so a column it does not know is an error
at load time and not a silent shift.
"""

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Case
from archqa.engine.question import question_text
from archqa.notes.concepts import concept_names
from archqa.notes.sections import (
    SentencePosition,
    sentence_positions,
    shorthand_ratio,
    text_without_list_marker,
)
from archqa.notes.tokens import stems

Matrix = NDArray[np.float64]
Column = NDArray[np.float64]
"""One number for each sentence of a case."""
COMMON = 0.2
"""What a concept is worth at least that half the note names."""


class FeatureTable:
    """Named columns of one case, each of shape (sentences,)."""

    def __init__(self, columns: dict[str, Column]) -> None:
        self.columns = columns

    def matrix(self, names: tuple[str, ...]) -> Matrix:
        """The named columns side by side, of shape (sentences, names)."""
        return np.column_stack([self.columns[name] for name in names]).astype(np.float64)


def feature_table(case: Case, read: Column) -> FeatureTable:
    """Every feature of every sentence of `case`, which must have one. `read`: the reader's log-odds, one a sentence."""
    return FeatureTable(cross_encoder_features(read) | text_features(case))


def text_features(case: Case) -> dict[str, Column]:
    """The features that do without the reader."""
    spots = sentence_positions(case)
    topic = _topic(case)
    block = np.array([spot.block for spot in spots])
    around = np.array([topic[block == each].max() for each in block])
    return (
        {"topic.question": topic, "around.block_topic_best": around}
        | _overlap(case)
        | _shape(case, spots)
    )


def shared_concepts(case: Case) -> list[frozenset[str]]:
    """The clinical concepts that each sentence and the question both name."""
    question = concept_names(
        " . ".join([question_text(case), *(phrase.text for phrase in case.patient_question)])
    )
    return [concept_names(each.text) & question for each in case.sentences]


def cross_encoder_features(logits: Column) -> dict[str, Column]:
    """The reader's verdict on the sentence, on its neighbours, and on the case: how much evidence it sees at all."""
    edge = np.concatenate([logits[:1], logits, logits[-1:]])
    return {
        "reader.logit": logits,
        "reader.standing": (logits - logits.mean()) / (logits.std() + 1e-6),
        "reader.before": edge[:-2],
        "reader.after": edge[2:],
        "reader.best": np.full(len(logits), logits.max()),
        "reader.evidence": np.full(len(logits), np.logaddexp.reduce(logits)),
    }


def _topic(case: Case) -> Column:
    """The concepts shared with the question, weighted by their rarity in the note."""
    weight = _rarity([concept_names(each.text) for each in case.sentences])
    shared = shared_concepts(case)
    return np.array(
        [sum(max(COMMON, weight[name]) for name in each) for each in shared], dtype=np.float64
    )


def _overlap(case: Case) -> dict[str, Column]:
    """Shared content words, weighted in the same way."""
    sentences = [frozenset(stems(each.text)) for each in case.sentences]
    sources = {"question": frozenset(stems(question_text(case)))}
    sources["phrase"] = frozenset(
        word for phrase in case.patient_question for word in stems(phrase.text)
    )
    weight = _rarity(sentences)
    return {
        f"words.{name}": np.array(
            [sum(weight[word] for word in source & each) for each in sentences], dtype=np.float64
        )
        for name, source in sources.items()
    }


def _rarity(found: list[frozenset[str]]) -> dict[str, float]:
    """What stands in every second sentence of a note tells little; what stands in one tells much."""
    counts: dict[str, int] = {}
    for each in found:
        for name in each:
            counts[name] = counts.get(name, 0) + 1
    return {name: float(np.log((len(found) + 1) / (count + 0.5))) for name, count in counts.items()}


def _shape(case: Case, spots: tuple[SentencePosition, ...]) -> dict[str, Column]:
    texts = [text_without_list_marker(each) for each in case.sentences]
    return {
        "shape.heading": np.array([float(spot.heading) for spot in spots]),
        "shape.length": np.log1p(np.array([float(len(text.split())) for text in texts])),
        "shape.position": np.arange(len(texts)) / max(len(texts) - 1, 1),
        "shape.telegraphic": np.full(len(texts), shorthand_ratio(case)),
        "shape.note": np.full(len(texts), np.log(len(texts))),
    }
