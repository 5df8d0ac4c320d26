"""One row of numbers for each sentence of a case: all that the model knows of it.

Columns are named `group.name`; the names are stored with the fitted model, so a column it does not know is an error
at load time and not a silent shift.
"""

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Case
from archqa.evidence import topics
from archqa.evidence.cues import sentence_cues, strengths
from archqa.evidence.note import Place, bare, places, section_kinds, telegraphic
from archqa.evidence.question import asked
from archqa.evidence.topics import Column
from archqa.evidence.words import LONGEST, numbers, stems

Matrix = NDArray[np.float64]


class Table:
    """Named columns of one case, each of shape (sentences,)."""

    def __init__(self, columns: dict[str, Column]) -> None:
        self.columns = columns

    def matrix(self, names: tuple[str, ...]) -> Matrix:
        """The named columns side by side, of shape (sentences, names)."""
        return np.column_stack([self.columns[name] for name in names]).astype(np.float64)


def table(case: Case, read: Column) -> Table:
    """Every feature of every sentence of `case`, which must have one. `read`: the reader's log-odds, one a sentence."""
    return Table(reading(read) | unread(case))


def unread(case: Case) -> dict[str, Column]:
    """The features that do without the reader."""
    spots = places(case)
    columns = topics.columns(case, spots)
    columns |= _around(columns["topic.question"], spots)
    columns |= _spread(_overlap(case))
    columns |= _shape(case, spots)
    columns |= _sections(spots)
    return columns | _wording(case)


def reading(logits: Column) -> dict[str, Column]:
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


def _spread(columns: dict[str, Column]) -> dict[str, Column]:
    """Each column with its standing within the case: z-score and rank (0 the lowest, 1 the highest)."""
    spread: dict[str, Column] = {}
    for name, column in columns.items():
        spread[name] = column
        spread[f"{name}.z"] = (column - column.mean()) / (column.std() + 1e-6)
        spread[f"{name}.rank"] = np.argsort(np.argsort(column, kind="stable"), kind="stable") / max(len(column) - 1, 1)
    return spread


def _around(topic: Column, spots: tuple[Place, ...]) -> dict[str, Column]:
    """The company a sentence keeps: how much of its block is about the question, and where in the block it stands."""
    block = np.array([spot.block for spot in spots])
    inside = [topic[block == each] for each in block]
    size = np.array([float(len(each)) for each in inside])
    return {
        "around.block_topic": np.array([each.mean() for each in inside]),
        "around.block_topic_best": np.array([each.max() for each in inside]),
        "around.block_size": np.log(size),
        "around.block_alone": (size == 1).astype(float),
        "around.block_first": np.array([float(spot.depth == 0) for spot in spots]),
    }


def _overlap(case: Case) -> dict[str, Column]:
    """Shared content words, weighted by their rarity in the note, and shared numbers."""
    sentences = [frozenset(stems(each.text)) for each in case.sentences]
    sources = {"question": stems(asked(case)), "message": stems(case.patient_narrative)}
    sources["phrase"] = tuple(word for phrase in case.patient_question for word in stems(phrase.text))
    weight = _rarity(sentences)
    columns = {
        f"words.{name}": np.array([sum(weight.get(word, 0.0) for word in set(source) & each) for each in sentences])
        for name, source in sources.items()
    }
    told = numbers(case.patient_narrative) | numbers(case.clinician_question)
    return columns | {"words.numbers": np.array([float(len(numbers(each.text) & told)) for each in case.sentences])}


def _rarity(sentences: list[frozenset[str]]) -> dict[str, float]:
    counts: dict[str, int] = {}
    for words in sentences:
        for word in words:
            counts[word] = counts.get(word, 0) + 1
    return {word: float(np.log((len(sentences) + 1) / (count + 0.5))) for word, count in counts.items()}


def _shape(case: Case, spots: tuple[Place, ...]) -> dict[str, Column]:
    texts = [bare(each) for each in case.sentences]
    length = np.array([float(len(text.split())) for text in texts])
    at = np.arange(len(texts)) / max(len(texts) - 1, 1)
    return {
        "shape.heading": np.array([float(spot.heading) for spot in spots]),
        "shape.bullet": np.array([float(spot.bullet) for spot in spots]),
        "shape.labelled": np.array([float(spot.labelled) for spot in spots]),
        "shape.length": np.log1p(length),
        "shape.short": (length < 5).astype(float),
        "shape.position": at,
        "shape.last_third": (at > 0.67).astype(float),
        "shape.telegraphic": np.full(len(texts), telegraphic(case)),
        "shape.note": np.full(len(texts), np.log(len(texts))),
        "shape.digits": np.array([min(len(numbers(text)), 8) / 8 for text in texts]),
        "shape.commas": np.array([min(text.count(","), 8) / 8 for text in texts]),
    }


def _sections(spots: tuple[Place, ...]) -> dict[str, Column]:
    return {f"section.{kind}": np.array([float(spot.section == kind) for spot in spots]) for kind in section_kinds()}


def _wording(case: Case) -> dict[str, Column]:
    found = np.array([strengths(sentence_cues(), each.text[:LONGEST]) for each in case.sentences])
    return {f"cue.{cue.name}": found[:, at] for at, cue in enumerate(sentence_cues())}
