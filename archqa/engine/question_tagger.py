"""Says how likely a question has each of the frames that the everyday grammar reads.

A frame is what is asked, without the names, dates and numbers: "the last value of a measurement".
The lower layers of the cross-encoder read the question; a linear head, trained on questions in free
words (`training/tagger_training.py`), scores every frame by its parts, such as `position=last`.
"""

import json
import math
from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from archqa.core.value import FrozenModel
from archqa.engine import DATA_DIR
from archqa.engine.onnx_sessions import open_session
from archqa.engine.wordpiece import CLS, SEP, tokenize_text

ENCODER_FILE = DATA_DIR / "question_tagger.onnx"
HEADS_FILE = DATA_DIR / "question_tagger_heads.npz"
SETTINGS_FILE = DATA_DIR / "question_tagger.json"
LAYERS = 6
MAX_TOKENS = 96
"""Longer questions are not tagged."""
CLUE_WEIGHT = 0.35
ENCODER_WEIGHT = 0.04
"""Of one clue, and of the encoder's features: the head is regularised as one matrix."""

Floats = NDArray[np.float32]


class TaggerSettings(FrozenModel):
    """How sure a frame is: calibrated log-odds are `slope` times those of the network plus `bias`.

    A frame is confirmed from `min_confidence` on.
    """

    slope: float
    bias: float
    min_confidence: float
    provenance: str = ""


class TaggerHeads(NamedTuple):
    """What was trained: `weights` (clues + encoder's size, parts) and `biases` (parts,).

    `parts` (frames, parts) says which parts a frame has; `clues` are rows by name,
    `mean` and `deviation` standardise the encoder's output.
    """

    weights: Floats
    biases: Floats
    parts: Floats
    mean: Floats
    deviation: Floats
    clues: dict[str, int]
    frames: tuple[str, ...]

    def place_of(self, clue: str) -> int | None:
        """Return the row of a clue; None of one that was not trained."""
        return self.clues.get(clue)


class QuestionTagger:
    """Scores the frames of a question. Use `QuestionTagger.load`; safe to share among threads."""

    def __init__(
        self, session: ort.InferenceSession, heads: TaggerHeads, settings: TaggerSettings
    ) -> None:
        self._session = session
        self._heads = heads
        self._settings = settings

    @staticmethod
    def load() -> "QuestionTagger":
        """Return the shipped one, loaded once."""
        return _load_default()

    def confirms(
        self, frame: str, text: str, clues: Iterable[str], possible: Callable[[str], bool]
    ) -> bool:
        """Whether a question surely has a frame; arguments as of `confidence`."""
        confidence = self.confidence(frame, text, clues, possible)
        return confidence >= self._settings.min_confidence

    def confidence(
        self, frame: str, text: str, clues: Iterable[str], possible: Callable[[str], bool]
    ) -> float:
        """Return how likely a question has a frame, calibrated; 0 for one that was not trained.

        `text` is the question with stand-ins for its names, `clues` what else is known of it;
        `possible` says whether a frame holds what the question names.
        """
        vector = encode(self._session, text)
        if vector is None:
            return 0.0
        probabilities = frame_probabilities(self._heads, vector, clues, possible)
        return calibrated(probabilities.get(frame, 0.0), self._settings)


def frame_probabilities(
    heads: TaggerHeads, vector: Floats, clues: Iterable[str], possible: Callable[[str], bool]
) -> dict[str, float]:
    """Return the probability of each possible frame before calibration."""
    places = [place for place, frame in enumerate(heads.frames) if possible(frame)]
    if not places:
        return {}
    scores = _scores(heads, vector, clues)[places]
    probabilities = np.exp(scores - scores.max())
    probabilities /= probabilities.sum()
    names = [heads.frames[place] for place in places]
    return dict(zip(names, probabilities.tolist(), strict=True))


def calibrated(probability: float, settings: TaggerSettings) -> float:
    """Return the calibrated probability; 0 stays 0."""
    if probability <= 0:
        return 0.0
    log_odds = settings.slope * _log_odds(probability) + settings.bias
    return 1 / (1 + math.exp(-log_odds))


def _log_odds(probability: float) -> float:
    bounded = min(max(probability, 1e-6), 1 - 1e-6)
    return math.log(bounded / (1 - bounded))


def _scores(heads: TaggerHeads, vector: Floats, clues: Iterable[str]) -> Floats:
    known = [place for clue in set(clues) if (place := heads.place_of(clue)) is not None]
    inputs = (vector - heads.mean) / heads.deviation * ENCODER_WEIGHT
    of_clues = CLUE_WEIGHT * heads.weights[known].sum(0)
    of_encoder = inputs @ heads.weights[len(heads.clues) :]
    scores: Floats = heads.parts @ (of_clues + of_encoder + heads.biases)
    return scores


def encode(session: ort.InferenceSession, text: str) -> Floats | None:
    """Return the encoder's vector of a question; None of one that is too long."""
    pieces = [CLS, *tokenize_text(text), SEP]
    if len(pieces) > MAX_TOKENS:
        return None
    outputs = session.run(None, {"pieces": np.array([pieces], dtype=np.int64)})
    vector: Floats = outputs[0][0]
    return vector


def write_heads(heads: TaggerHeads) -> None:
    """Write the heads; weights have 16 bits."""
    names = json.dumps([list(heads.clues), heads.frames])
    arrays = {
        name: getattr(heads, name).astype(np.float16)
        for name in ("weights", "biases", "parts", "mean", "deviation")
    }
    np.savez_compressed(HEADS_FILE, names=np.array(names), **arrays)


def read_heads() -> TaggerHeads:
    """Read the heads."""
    with np.load(HEADS_FILE) as arrays:
        clues, frames = json.loads(str(arrays["names"]))
        numbers = {
            name: arrays[name].astype(np.float32)
            for name in ("weights", "biases", "parts", "mean", "deviation")
        }
    return TaggerHeads(
        clues={clue: row for row, clue in enumerate(clues)}, frames=tuple(frames), **numbers
    )


@cache
def _load_default() -> QuestionTagger:
    settings = TaggerSettings.model_validate_json(SETTINGS_FILE.read_bytes())
    return QuestionTagger(open_session(ENCODER_FILE), read_heads(), settings)
