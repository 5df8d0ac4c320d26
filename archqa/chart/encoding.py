"""The vectors of sentences: by the engine's small encoder, loaded when it is needed first."""

from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from archqa.engine.encoders import Vectors

_MAX_REMEMBERED = 20_000
"""Vectors that are kept in memory: 30 MB."""


def encode(texts: list[str]) -> "Vectors":
    """Return vectors of shape (texts, dimensions) and length 1. Raises MissingExtra."""
    from archqa.engine.encoders import default_encoder  # It opens a network.

    return default_encoder().encode(texts)


class RememberedVectors:
    """Encodes texts, each once: the notes of a server's record are read at each question."""

    def __init__(self) -> None:
        self._vectors: dict[str, NDArray[np.float32]] = {}
        self._lock = Lock()

    def encode(self, texts: list[str]) -> "Vectors":
        """As `encode`."""
        with self._lock:
            new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
            if len(self._vectors) + len(new) > _MAX_REMEMBERED:
                self._vectors.clear()
                new = list(dict.fromkeys(texts))
            self._vectors.update(zip(new, encode(new), strict=True))
            known = [self._vectors[text] for text in texts]
        return np.stack(known) if known else encode([])


remembered_vectors = RememberedVectors()
"""Those of this process."""
