"""The lower layers of the cross-encoder, which read a question for the question tagger.

Frozen: the shipped graph refers to the cross-encoder's packed weights. Needs the training extra.
"""

from pathlib import Path

import torch
from torch import Tensor, nn

from archqa.engine.cross_encoder import CROSS_ENCODER_FILE
from archqa.engine.question_tagger import ENCODER_FILE, LAYERS, MAX_TOKENS
from archqa.engine.training.mpnet import MpnetEncoder
from archqa.engine.wordpiece import CLS, SEP


class QuestionEncoderNetwork(nn.Module):
    """Token ids of one question in, the mean of its token vectors out."""

    def __init__(self, encoder: MpnetEncoder) -> None:
        super().__init__()
        self.single_window = True
        self.encoder = encoder

    def forward(self, pieces: Tensor) -> Tensor:
        """Return a vector of shape (1, size)."""
        hidden: Tensor = self.encoder(pieces)
        return hidden.mean(1)


def export_question_encoder(file: Path = ENCODER_FILE) -> None:
    """Write the lower layers of the shipped cross-encoder, which stands in the same folder."""
    from archqa.engine.training import export, weight_import

    encoder = weight_import.load_network(CROSS_ENCODER_FILE, 0).encoder
    network = QuestionEncoderNetwork(_shortened(encoder))
    example = {"pieces": torch.tensor([[CLS, 2054, SEP]])}
    export.export(network, file, example, CROSS_ENCODER_FILE.with_suffix(".npz"))


def _shortened(encoder: MpnetEncoder) -> MpnetEncoder:
    """The encoder with fewer layers, for texts as short as questions are."""
    encoder.layers = encoder.layers[:LAYERS]
    encoder.limit_length(MAX_TOKENS)
    places = encoder.embeddings.places.weight[:MAX_TOKENS].detach()
    encoder.embeddings.places = nn.Embedding(len(places), encoder.size, _weight=places)
    encoder.embeddings.positions = MAX_TOKENS
    return encoder
