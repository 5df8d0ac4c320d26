"""What a sentence of a given answer rests on: each pair of answer and note sentence gets a probability (2026, 4).

The features compare the two sentences by meaning, words, numbers and concepts, and ask how this note sentence stands
among the others for this answer sentence, and among its neighbours. The model is boosted trees like the engine's.
"""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Case
from archqa.core.value import FrozenModel
from archqa.engine.evidence_selection import SelectionPrior, select_sentences
from archqa.engine.features import Matrix
from archqa.engine.gradient_boosting import Forest, Tree
from archqa.engine.logistic_regression import expit
from archqa.engine.sentence_encoder import SentenceEncoder, default_encoder
from archqa.errors import InputError
from archqa.notes.concepts import concept_names
from archqa.notes.sections import sentence_positions, text_without_list_marker
from archqa.notes.tokens import extract_numbers, stems

LINKER_FILE = Path(__file__).parent / "data" / "links" / "linker.json"

LinkSet = frozenset[tuple[str, str]]


class Linker(FrozenModel):
    """Boosted trees over the columns of a pair. `max_expected_f1` and `mass` serve selection."""

    schema_version: int = 1
    columns: tuple[str, ...]
    bias: float
    trees: tuple[Tree, ...]
    expected_f1: float
    mass: float
    fitted_on: tuple[str, ...] = ()
    made_by: str = ""

    def probabilities(self, table: "PairFeatures") -> NDArray[np.float64]:
        """Of shape (answer sentences, note sentences)."""
        logits = Forest(self.trees).paths(table.matrix(self.columns)).sum(1) + self.bias
        return expit(logits).reshape(table.shape)

    def links(self, case: Case, probabilities: NDArray[np.float64]) -> LinkSet:
        """The set of links of the whole answer with the greatest expected F1, as pairs of ids."""
        chosen = select_sentences(
            probabilities.reshape(-1), SelectionPrior(self.expected_f1, self.mass)
        )
        answers, notes = np.unravel_index(chosen, probabilities.shape)
        ids = case.sentence_ids
        return frozenset(
            (case.answer_sentences[one].id, ids[other])
            for one, other in zip(answers.tolist(), notes.tolist(), strict=True)
        )


class PairFeatures(NamedTuple):
    """Named columns of all pairs of a case, each of shape (answer sentences, note sentences)."""

    columns: dict[str, NDArray[np.float64]]

    @property
    def shape(self) -> tuple[int, int]:
        """Answer sentences and note sentences."""
        rows, columns = self.columns["near"].shape
        return rows, columns

    def matrix(self, wanted: tuple[str, ...]) -> Matrix:
        """The named columns side by side, of shape (pairs, names)."""
        return np.column_stack([self.columns[name].reshape(-1) for name in wanted]).astype(
            np.float64
        )


def predict_links(case: Case) -> LinkSet:
    """The links of a case's answer by the shipped linker. Needs answer sentences and note sentences."""
    linker = default_linker()
    return linker.links(case, linker.probabilities(pair_features(case, default_encoder())))


def most_similar_links(case: Case, table: PairFeatures) -> LinkSet:
    """The baseline: each answer sentence with the note sentence nearest to it in meaning."""
    best = table.columns["near"].argmax(1).tolist()
    return frozenset(
        (answer.id, case.sentence_ids[at])
        for answer, at in zip(case.answer_sentences, best, strict=True)
    )


def pair_features(case: Case, encoder: SentenceEncoder) -> PairFeatures:
    """Every feature of every pair of a case."""
    answers, notes = (
        [each.text for each in case.answer_sentences],
        [text_without_list_marker(each) for each in case.sentences],
    )
    vectors = encoder.encode([*answers, *notes])
    near = (vectors[: len(answers)] @ vectors[len(answers) :].T).astype(np.float64)
    spots = sentence_positions(case)
    said = _shared(answers, notes)
    columns = {"near": near, **said}
    for name in ("near", "words.answer", "concepts.answer"):
        columns |= _standing(name, columns[name])
    columns |= _neighbours(near, said["words.answer"])
    columns |= _rivals(near)
    lone = {
        "note.heading": np.array([float(spot.heading) for spot in spots]),
        "note.length": np.log1p([float(len(text.split())) for text in notes]),
        "note.position": np.arange(len(notes)) / max(len(notes) - 1, 1),
        **{
            f"note.{kind}": np.array([float(spot.section == kind) for spot in spots])
            for kind in _SECTIONS
        },
    }
    columns |= {name: np.broadcast_to(column, near.shape) for name, column in lone.items()}
    length = np.log1p([float(len(text.split())) for text in answers])
    columns["answer.length"] = np.broadcast_to(length[:, None], near.shape)
    columns["answer.sentences"] = np.full(near.shape, float(len(answers)))
    return PairFeatures(columns)


_SECTIONS = ("instructions", "followup", "medications", "course", "history")


def _shared(answers: list[str], notes: list[str]) -> dict[str, NDArray[np.float64]]:
    """Shared words by rarity in the note, numbers and concepts, as a share of the answer's and of the note's."""
    rarity = _rarity([frozenset(stems(text)) for text in notes])
    columns: dict[str, NDArray[np.float64]] = {}
    kinds = {
        "words": lambda text: frozenset(stems(text)),
        "numbers": extract_numbers,
        "concepts": concept_names,
    }
    for kind, parts in kinds.items():
        of_answers, of_notes = [parts(text) for text in answers], [parts(text) for text in notes]
        weight = rarity if kind == "words" else {}
        common = np.array(
            [[_weight(one & other, weight) for other in of_notes] for one in of_answers]
        )
        columns[f"{kind}.common"] = common
        columns[f"{kind}.answer"] = common / np.maximum(
            1.0, [[_weight(one, weight)] for one in of_answers]
        )
        columns[f"{kind}.note"] = common / np.maximum(
            1.0, [_weight(other, weight) for other in of_notes]
        )
    return columns


def _rarity(notes: list[frozenset[str]]) -> dict[str, float]:
    everything = {word for note in notes for word in note}
    return {
        word: float(np.log((len(notes) + 1) / (sum(word in note for note in notes) + 0.5)))
        for word in everything
    }


def _weight(words: frozenset[str], rarity: dict[str, float]) -> float:
    return sum(rarity.get(word, 1.0) for word in words)


def _standing(name: str, column: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """How a pair stands among the note's sentences for the same answer sentence, and the other way round."""
    best = column.max(1, keepdims=True)
    rank = np.argsort(np.argsort(-column, axis=1, kind="stable"), axis=1, kind="stable")
    return {
        f"{name}.z": (column - column.mean(1, keepdims=True))
        / (column.std(1, keepdims=True) + 1e-6),
        f"{name}.rank": np.minimum(rank, 10).astype(np.float64),
        f"{name}.below_best": best - column,
        f"{name}.best": np.broadcast_to(best, column.shape),
    }


def _neighbours(
    near: NDArray[np.float64], words: NDArray[np.float64]
) -> dict[str, NDArray[np.float64]]:
    columns: dict[str, NDArray[np.float64]] = {}
    for name, column in (("near", near), ("words", words)):
        edge = np.pad(column, ((0, 0), (1, 1)))
        columns |= {f"{name}.before": edge[:, :-2], f"{name}.after": edge[:, 2:]}
    return columns


def _rivals(near: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Whether another sentence of the answer is nearer to this note sentence."""
    best = near.max(0, keepdims=True)
    return {"rival.gap": near - best, "rival.mean": near - near.mean(0, keepdims=True)}


@cache
def default_linker() -> Linker:
    """The shipped linker, read once. Raises InputError when it is absent or none."""
    try:
        return Linker.model_validate_json(LINKER_FILE.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(
            LINKER_FILE, [": is not a linker."], "Fit it again: archqa evidence links"
        ) from error
