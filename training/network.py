"""The cross-encoder's network in PyTorch: MPNet over question and note, and a head that compares.

The head is given how similar each sentence is to the question, as in late interaction (Khattab and
Zaharia 2020, ColBERT: for each token of the question the most similar token of the sentence). A
head that sees the sentence alone has to learn that comparison from labels, and several hundred
cases did not teach it (engine-log.md, fourth round).

A network that is trained on from another one may be trained by updates of low rank (LoRA, Hu et al.
2021, arXiv:2106.09685): a thirtieth of the size of new weights.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize

from archqa.engine.windows import CLS, MAX_QUESTION_TOKENS, MAX_WINDOW_TOKENS, PAD, SEP
from training.mpnet import MpnetEncoder

LAYERS = 12
"""All of MPNet's: the lower six alone are worse on real notes (engine-log.md, ninth round)."""
MAX_QUESTION_PART = MAX_QUESTION_TOKENS + 2
"""Tokens of the question part with [CLS] and [SEP]."""
SIMILARITY_SCALE = 10.0
"""Similarities lie close together; this spreads them to the size of log-odds."""
INITIAL_SIMILARITY_WEIGHTS = (0.5, 0.0, 0.0, 0.0, 1.0, 0.0, 0.2, 0.0)
"""Weights before training: the similarity of means and of tokens to the question, then to the rest
of the question part; then the same four relative to the window's average sentence."""
INITIAL_LOGIT = -1.4
"""Log-odds that a sentence is essential before training."""
RANK = 32
"""The rank of updates."""
OUTSIDE_PENALTY = 4.0
"""Subtracted from the similarity of tokens outside a sentence; cosines differ by 2 at most."""


class QuestionParts(NamedTuple):
    """Masks of the question itself (the clinician's, else the patient's) and of what follows it."""

    question: Tensor
    rest: Tensor


class CrossEncoderNetwork(nn.Module):
    """Token ids in, one logit for each sentence out.

    Token embeddings and the lower `frozen_layers` are not trained. With `single_window`, one window
    at a time, no padding mask is needed. Module names are names in the shipped ONNX graph.
    """

    def __init__(
        self,
        weights: Mapping[str, Tensor],
        frozen_layers: int = 0,
        *,
        layers: int = LAYERS,
    ) -> None:
        super().__init__()
        self.single_window = False
        self.encoder = MpnetEncoder(
            weights, layers, MAX_WINDOW_TOKENS + 2, frozen_layers
        )
        size = self.encoder.size
        self.dropout = nn.Dropout(0.1)
        self.matters = nn.Linear(size, 1)
        self.seen = nn.Linear(4 * size, 1)
        self.likeness = nn.Linear(len(INITIAL_SIMILARITY_WEIGHTS), 1)
        for layer in (self.matters, self.seen, self.likeness):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)
        self.likeness.weight.data[0] = torch.tensor(INITIAL_SIMILARITY_WEIGHTS)
        self.likeness.bias.data[0] = INITIAL_LOGIT

    def forward(
        self, pieces: Tensor, kinds: Tensor, marks: Tensor, mean: Tensor
    ) -> Tensor:
        """Return logits (windows, sentences); inputs as in `cross_encoder.network_inputs`."""
        mask = (pieces != PAD).long()
        hidden = self.encoder(pieces, None if self.single_window else 1 - mask)
        marker_index = marks[..., None].expand(-1, -1, hidden.shape[-1])
        marker = torch.gather(hidden, 1, marker_index)
        sentence_mean = mean @ hidden
        products = []
        similarities = []
        token_similarity = _token_similarity(hidden, mean)
        for part in _question_parts(pieces, kinds, mask):
            part_tokens = part.sum(1).clamp(min=1.0)
            part_mean = (part[:, None] @ hidden) / part_tokens[:, None, None]
            product = normalize(sentence_mean, dim=-1) * normalize(part_mean, dim=-1)
            products.append(product)
            similarities.append(product.sum(-1))
            similarities.append(self._late_interaction(hidden, token_similarity, part))
        similarity = SIMILARITY_SCALE * torch.stack(similarities, -1)
        relative = _relative_to_average(similarity, mean)
        comparison = torch.cat([similarity, relative], -1)
        representation = torch.cat([marker, sentence_mean, *products], -1)
        representation = self.dropout(representation)
        logits: Tensor = self.seen(representation) + self.likeness(comparison)
        return logits[..., 0]

    def _late_interaction(
        self, hidden: Tensor, token_similarity: Tensor, part: Tensor
    ) -> Tensor:
        """Average the similarity over the tokens of a question part by their learned weight."""
        question_mask = part[:, :MAX_QUESTION_PART]
        token_weight = self.matters(hidden[:, :MAX_QUESTION_PART])[..., 0]
        weight = torch.exp(token_weight) * question_mask
        total = (token_similarity * weight[:, None]).sum(-1)
        total_weight = weight.sum(1).clamp(min=1e-6)
        return total / total_weight[:, None]


def _question_parts(pieces: Tensor, kinds: Tensor, mask: Tensor) -> QuestionParts:
    is_special = (pieces == CLS) | (pieces == SEP)
    is_question_part = (kinds == 0) & (mask == 1) & ~is_special
    is_after_separator = torch.cumsum((pieces == SEP).long(), 1) > 0
    return QuestionParts(
        (is_question_part & ~is_after_separator).float(),
        (is_question_part & is_after_separator).float(),
    )


def _token_similarity(hidden: Tensor, mean: Tensor) -> Tensor:
    """Return, for each question token, its highest cosine to a token of each sentence.

    The shape is (windows, sentences, question tokens).
    """
    unit = normalize(hidden, dim=-1)
    cosine = unit @ unit[:, :MAX_QUESTION_PART].transpose(1, 2)
    is_outside = (mean <= 0).to(cosine.dtype)
    penalty = OUTSIDE_PENALTY * is_outside[..., None]
    return (cosine[:, None] - penalty).amax(2)


def _relative_to_average(similarity: Tensor, mean: Tensor) -> Tensor:
    """Subtract the average over the window's sentences, padding excluded."""
    is_sentence = (mean.sum(-1) > 0).to(similarity.dtype)[..., None]
    sentences = is_sentence.sum(1, keepdim=True).clamp(min=1.0)
    total = (similarity * is_sentence).sum(1, keepdim=True)
    return similarity - total / sentences


class LowRankLinear(nn.Linear):
    """A linear layer whose weight stays as it is, plus `up` (outputs, rank) @ `down` (rank, inputs).

    `up` begins with zeros, so that the layer begins as the plain one.
    """

    def __init__(self, plain: nn.Linear, rank: int) -> None:
        super().__init__(plain.in_features, plain.out_features)
        self.load_state_dict(plain.state_dict())
        self.weight.requires_grad_(False)
        self.down = nn.Parameter(torch.empty(rank, plain.in_features))
        self.up = nn.Parameter(torch.zeros(plain.out_features, rank))
        nn.init.kaiming_uniform_(self.down, a=5**0.5)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the output of the plain layer plus that of the update."""
        return super().forward(hidden) + linear(linear(hidden, self.down), self.up)


def add_low_rank_updates(encoder_layers: nn.ModuleList, rank: int = RANK) -> None:
    """Replace the linear layers that are trained by ones whose updates are trained instead."""
    for encoder_layer in encoder_layers:
        for name, module in list(encoder_layer.named_children()):
            if isinstance(module, nn.Linear) and module.weight.requires_grad:
                encoder_layer.add_module(name, LowRankLinear(module, rank))
