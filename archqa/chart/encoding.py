"""The vectors of sentences: by the engine's small encoder, loaded when it is needed first."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from archqa.engine.sentence_encoder import Vectors


def encode(texts: list[str]) -> "Vectors":
    """Return vectors of shape (texts, dimensions) and length 1. Raises MissingExtra."""
    from archqa.engine.sentence_encoder import default_encoder  # It opens a network.

    return default_encoder().encode(texts)
