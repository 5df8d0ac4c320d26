"""The features of every sentence of a case.

Columns are named `group.name`; the names are stored with the fitted model, so that an unknown
column is an error at load time and not a silent shift.
"""

from collections import Counter
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Case
from archqa.engine.question import question_text, question_with_phrases
from archqa.notes.sections import (
    SentencePosition,
    sentence_positions,
    shorthand_ratio,
    text_without_list_marker,
)
from archqa.terminology.topics import topics_of
from archqa.terminology.words import stems

Matrix = NDArray[np.float64]
Column = NDArray[np.float64]
"""One number for each sentence of a case."""
MIN_CONCEPT_RARITY = 0.2
"""Lower bound of a concept's rarity, for concepts that half the note names."""


class FeatureTable:
    """Named columns of one case, each of shape (sentences,)."""

    def __init__(self, columns: dict[str, Column]) -> None:
        self.columns = columns

    def matrix(self, names: tuple[str, ...]) -> Matrix:
        """Return the named columns as a matrix of shape (sentences, names)."""
        columns = [self.columns[name] for name in names]
        return np.column_stack(columns).astype(np.float64)


def text_features(case: Case) -> dict[str, Column]:
    """Return the features that do not depend on the cross-encoder."""
    positions = sentence_positions(case)
    topic = _shared_concept_rarity(case)
    return {
        "topic.question": topic,
        "around.block_topic_best": _block_maximum(topic, positions),
        **_shared_word_features(case),
        **_shape_features(case, positions),
    }


def shared_concepts(case: Case) -> list[frozenset[str]]:
    """Return, for every sentence, the clinical concepts that it shares with the question."""
    question = question_with_phrases(case, separator=" . ")
    question_concepts = topics_of(question)
    return [topics_of(sentence.text) & question_concepts for sentence in case.sentences]


def cross_encoder_features(logits: Column) -> dict[str, Column]:
    """Return the logits of the sentence, of its neighbours, and summaries of the case's logits."""
    sentences = len(logits)
    padded = np.concatenate([logits[:1], logits, logits[-1:]])
    total_evidence = np.logaddexp.reduce(logits)
    return {
        "reader.logit": logits,
        "reader.standing": (logits - logits.mean()) / (logits.std() + 1e-6),
        "reader.before": padded[:-2],
        "reader.after": padded[2:],
        "reader.best": np.full(sentences, logits.max()),
        "reader.evidence": np.full(sentences, total_evidence),
    }


def rarity(texts: Collection[frozenset[str]]) -> dict[str, float]:
    """Return how rare every term is: terms of every second text weigh little, of one text much."""
    counts: Counter[str] = Counter()
    for terms in texts:
        counts.update(terms)
    rarity_of = {}
    for term, count in counts.items():
        ratio = (len(texts) + 1) / (count + 0.5)
        rarity_of[term] = float(np.log(ratio))
    return rarity_of


def _shared_concept_rarity(case: Case) -> Column:
    """Sum the rarity of the concepts that a sentence shares with the question."""
    sentence_concepts = [topics_of(sentence.text) for sentence in case.sentences]
    rarity_of = rarity(sentence_concepts)
    column = np.zeros(len(case.sentences))
    for index, concepts in enumerate(shared_concepts(case)):
        for name in concepts:
            column[index] += max(MIN_CONCEPT_RARITY, rarity_of[name])
    return column


def _block_maximum(column: Column, positions: tuple[SentencePosition, ...]) -> Column:
    """Return the highest value in the block of every sentence."""
    block = np.array([position.block for position in positions])
    maximum = np.zeros(len(column))
    for number in np.unique(block):
        members = block == number
        maximum[members] = column[members].max()
    return maximum


def _shared_word_features(case: Case) -> dict[str, Column]:
    """Sum the rarity of the content words shared with the question, and with the phrases."""
    sentence_stems = [frozenset(stems(sentence.text)) for sentence in case.sentences]
    rarity_of = rarity(sentence_stems)
    question_stems = frozenset(stems(question_text(case)))
    phrase_stems: set[str] = set()
    for phrase in case.patient_question:
        phrase_stems.update(stems(phrase.text))
    return {
        "words.question": _shared_rarity(sentence_stems, question_stems, rarity_of),
        "words.phrase": _shared_rarity(
            sentence_stems, frozenset(phrase_stems), rarity_of
        ),
    }


def _shared_rarity(
    sentence_stems: list[frozenset[str]],
    source: frozenset[str],
    rarity_of: dict[str, float],
) -> Column:
    column = np.zeros(len(sentence_stems))
    for index, own_stems in enumerate(sentence_stems):
        column[index] = sum(rarity_of[stem] for stem in source & own_stems)
    return column


def _shape_features(
    case: Case, positions: tuple[SentencePosition, ...]
) -> dict[str, Column]:
    sentences = len(case.sentences)
    last_index = max(sentences - 1, 1)
    is_heading = np.zeros(sentences)
    word_counts = np.zeros(sentences)
    for index, sentence in enumerate(case.sentences):
        text = text_without_list_marker(sentence)
        is_heading[index] = positions[index].heading
        word_counts[index] = len(text.split())
    return {
        "shape.heading": is_heading,
        "shape.length": np.log1p(word_counts),
        "shape.position": np.arange(sentences) / last_index,
        "shape.telegraphic": np.full(sentences, shorthand_ratio(case)),
        "shape.note": np.full(sentences, np.log(sentences)),
    }
