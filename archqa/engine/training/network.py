"""The reader's network in PyTorch: MPNet over question and note at once, and a head that compares both.

The head is told outright how near each sentence comes to what is asked, as late interaction does (Khattab & Zaharia
2020, ColBERT: for each piece of the question the likest piece of the sentence). A head that sees the sentence alone
has to learn that comparison from labels, and several hundred cases did not teach it (README.md).
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from archqa.engine.training.mpnet import MpnetEncoder
from archqa.engine.windows import CLS, MAX_QUESTION_TOKENS, MAX_WINDOW_TOKENS, PAD, SEP

LAYERS = 12
"""All of MPNet's: the lower six alone read real notes worse (README.md, ninth round)."""
HEAD = MAX_QUESTION_TOKENS + 2
"""Pieces within which the question ends."""
SHARP = 10.0
"""Likenesses lie close together; this spreads them to the size of log-odds."""
START = (0.5, 0.0, 0.0, 0.0, 1.0, 0.0, 0.2, 0.0)
"""What the likenesses weigh before training: of means and of nearest pieces, to what is asked and to what else is
told; then the same four against the note's average."""
RARELY = -1.4
"""Log-odds that a sentence is essential before anything is known of it."""


class Parts(NamedTuple):
    """Which pieces are what is asked (the clinician's question, or failing it the patient's), and which the rest."""

    asked: Tensor
    told: Tensor


class CrossEncoderNetwork(nn.Module):
    """Pieces in, one logit a sentence out. Piece embeddings and the `still` lower layers keep their weights.

    `alone`: for one window at a time, which needs no mask.
    """

    def __init__(
        self, weights: Mapping[str, Tensor], still: int = 0, *, layers: int = LAYERS
    ) -> None:
        super().__init__()
        self.alone = False
        self.encoder = MpnetEncoder(weights, layers, MAX_WINDOW_TOKENS + 2, still)
        size = self.encoder.size
        self.dropout = nn.Dropout(0.1)
        self.matters = nn.Linear(size, 1)
        self.seen = nn.Linear(4 * size, 1)
        self.likeness = nn.Linear(len(START), 1)
        for layer in (self.matters, self.seen, self.likeness):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)
        self.likeness.weight.data[0] = torch.tensor(START)
        self.likeness.bias.data[0] = RARELY

    def forward(self, pieces: Tensor, kinds: Tensor, marks: Tensor, mean: Tensor) -> Tensor:
        """Of shape (windows, sentences); the mask is taken from the padding."""
        mask = (pieces != PAD).long()
        hidden = self.encoder(pieces, None if self.alone else 1 - mask)
        marked = torch.gather(hidden, 1, marks[..., None].expand(-1, -1, hidden.shape[-1]))
        sentence, parts = mean @ hidden, _parts(pieces, kinds, mask)
        products, likenesses = [], []
        best = _best(hidden, mean)
        for part in parts:
            middle = (part[:, None] @ hidden) / part.sum(1).clamp(min=1.0)[:, None, None]
            product = normalize(sentence, dim=-1) * normalize(middle, dim=-1)
            products.append(product)
            likenesses += [product.sum(-1), self._nearest(hidden, best, part)]
        near = SHARP * torch.stack(likenesses, -1)
        seen = self.seen(self.dropout(torch.cat([marked, sentence, *products], -1)))
        logits: Tensor = (seen + self.likeness(torch.cat([near, _standing(near, mean)], -1)))[
            ..., 0
        ]
        return logits

    def _nearest(self, hidden: Tensor, best: Tensor, part: Tensor) -> Tensor:
        """The mean over a part's pieces of the likest piece in each sentence; pieces that matter weigh more."""
        own = part[:, :HEAD]
        weight = torch.exp(self.matters(hidden[:, :HEAD])[..., 0]) * own
        return (best * weight[:, None]).sum(-1) / weight.sum(1).clamp(min=1e-6)[:, None]


def _parts(pieces: Tensor, kinds: Tensor, mask: Tensor) -> Parts:
    question = (kinds == 0) & (mask == 1) & (pieces != CLS) & (pieces != SEP)
    behind = torch.cumsum((pieces == SEP).long(), 1) > 0
    return Parts((question & ~behind).float(), (question & behind).float())


def _best(hidden: Tensor, mean: Tensor) -> Tensor:
    """How near the likest piece of each sentence is to each piece of the question: (windows, sentences, pieces)."""
    unit = normalize(hidden, dim=-1)
    like = unit @ unit[:, :HEAD].transpose(1, 2)
    outside = (mean <= 0).to(like.dtype)
    return (like[:, None] - 4.0 * outside[..., None]).amax(2)


def _standing(near: Tensor, mean: Tensor) -> Tensor:
    """The same beside the average of the window's sentences."""
    there = (mean.sum(-1) > 0).to(near.dtype)[..., None]
    return near - (near * there).sum(1, keepdim=True) / there.sum(1, keepdim=True).clamp(min=1.0)
