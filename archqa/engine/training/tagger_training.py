"""Trains the heads of the question tagger on frozen features, and calibrates them out of fold.

A frame is scored by its parts, which other frames share, so that a frame with few questions learns
from the others. Needs the training extra for the gradient; everything else is numpy.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.engine.onnx_sessions import open_session
from archqa.engine.question_tagger import (
    CLUE_WEIGHT,
    ENCODER_FILE,
    ENCODER_WEIGHT,
    Floats,
    TaggerHeads,
    encode,
    frame_probabilities,
)

FOLDS = 5
NEVER_HELD_OUT = "plain"
"""The group of the labels themselves, which the grammar reads."""
STEPS = 150
LEARNING_RATE = 2e-2
WEIGHT_DECAY = 0.1
LABEL_SMOOTHING = 0.02
MIN_CLUE_COUNT = 3
"""Rarer clues would be learnt by heart."""
IMPOSSIBLE = -1e4


class TaggerExample(NamedTuple):
    """A question for training: its frame, and what the tagger is given.

    `group` is held out as a whole; `source` is its file; `is_left_over` says that the grammar alone
    does not read it; `possible` are the frames that hold what the question names;
    `reduced` is the frame that would be answered if the tagger confirmed it, else empty.
    """

    text: str
    clues: tuple[str, ...]
    frame: str
    possible: frozenset[str]
    group: str
    source: str
    reduced: str
    is_left_over: bool


class Scored(NamedTuple):
    """An example, and how likely its reduced frame is without having been trained on its group."""

    example: TaggerExample
    probability: float

    @property
    def is_right(self) -> bool:
        """Whether the frame that would be answered is the label."""
        return self.example.reduced == self.example.frame


PartsOf = Callable[[str], tuple[str, ...]]


def encode_texts(texts: Sequence[str]) -> dict[str, Floats]:
    """Return the encoder's vector of each text that is not too long."""
    session = open_session(ENCODER_FILE)
    vectors = {text: encode(session, text) for text in dict.fromkeys(texts)}
    return {text: vector for text, vector in vectors.items() if vector is not None}


def train_heads(
    examples: Sequence[TaggerExample],
    vectors: dict[str, Floats],
    frames: Sequence[str],
    parts_of: PartsOf,
) -> TaggerHeads:
    """Train on the examples that have a frame; the frames are scored by their parts."""
    labelled = [each for each in examples if each.frame and each.text in vectors]
    clues = _frequent_clues(labelled)
    encoded = np.stack([vectors[each.text] for each in labelled])
    mean, deviation = encoded.mean(0), encoded.std(0) + 1e-3
    inputs = _inputs(labelled, clues, (encoded - mean) / deviation)
    parts = _parts_matrix(frames, parts_of)
    weights, biases = _fit(inputs, labelled, frames, parts)
    return TaggerHeads(weights, biases, parts, mean, deviation, clues, tuple(frames))


def score_out_of_fold(
    examples: Sequence[TaggerExample],
    vectors: dict[str, Floats],
    frames: Sequence[str],
    parts_of: PartsOf,
) -> list[Scored]:
    """Score each example by heads that were not trained on its group."""
    scored = []
    for fold in range(FOLDS):
        rest = [each for each in examples if fold_of(each.group) != fold]
        heads = train_heads(rest, vectors, frames, parts_of)
        held_out = [each for each in examples if fold_of(each.group) == fold]
        scored += score(held_out, vectors, heads)
    return scored


def score(
    examples: Sequence[TaggerExample], vectors: dict[str, Floats], heads: TaggerHeads
) -> list[Scored]:
    """Score the examples that would be answered."""
    scored = []
    for each in examples:
        if each.reduced and each.text in vectors:
            probabilities = frame_probabilities(
                heads, vectors[each.text], each.clues, each.possible.__contains__
            )
            scored.append(Scored(each, probabilities.get(each.reduced, 0.0)))
    return scored


def fold_of(group: str) -> int:
    """Return the fold of a group, the same in every run; -1 for what is never held out."""
    if group == NEVER_HELD_OUT:
        return -1
    return int(hashlib.sha256(group.encode()).hexdigest(), 16) % FOLDS


def _frequent_clues(examples: Sequence[TaggerExample]) -> dict[str, int]:
    counts = Counter(clue for each in examples for clue in set(each.clues))
    frequent = sorted(clue for clue, count in counts.items() if count >= MIN_CLUE_COUNT)
    return {clue: row for row, clue in enumerate(frequent)}


def _inputs(
    examples: Sequence[TaggerExample], clues: dict[str, int], encoded: NDArray[np.floating[Any]]
) -> Floats:
    of_clues = np.zeros((len(examples), len(clues)), np.float32)
    for row, each in enumerate(examples):
        known = [clues[clue] for clue in set(each.clues) if clue in clues]
        of_clues[row, known] = CLUE_WEIGHT
    return np.concatenate([of_clues, ENCODER_WEIGHT * encoded], 1).astype(np.float32)


def _parts_matrix(frames: Sequence[str], parts_of: PartsOf) -> Floats:
    """Which parts a frame has: those that others share, and one of its own."""
    parts = sorted({part for frame in frames for part in parts_of(frame)})
    shared = np.array([[part in parts_of(frame) for part in parts] for frame in frames])
    return np.concatenate([shared, np.eye(len(frames))], 1).astype(np.float32)


def _fit(
    inputs: Floats, examples: Sequence[TaggerExample], frames: Sequence[str], parts: Floats
) -> tuple[Floats, Floats]:
    """Return weights (inputs, parts) and biases (parts,), by AdamW on all examples at once."""
    import torch

    place = {frame: row for row, frame in enumerate(frames)}
    possible = torch.tensor([[frame in each.possible for frame in frames] for each in examples])
    labels = torch.tensor([place[each.frame] for each in examples])
    possible[torch.arange(len(labels)), labels] = True
    layer = torch.nn.Linear(inputs.shape[1], parts.shape[1])
    torch.nn.init.zeros_(layer.weight)
    torch.nn.init.zeros_(layer.bias)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    features, of_frames = torch.from_numpy(inputs), torch.from_numpy(parts.T.copy())
    for step in range(STEPS):
        optimizer.param_groups[0]["lr"] = LEARNING_RATE * (1 - step / STEPS)
        scores = (layer(features) @ of_frames).masked_fill(~possible, IMPOSSIBLE)
        loss: Any = torch.nn.functional.cross_entropy(
            scores, labels, label_smoothing=LABEL_SMOOTHING
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return layer.weight.detach().numpy().T.copy(), layer.bias.detach().numpy()
