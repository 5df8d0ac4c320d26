"""MPNet's layers in PyTorch (Song et al. 2020, arXiv:2004.09297), read from all-mpnet-base-v2's weights.

Written out rather than taken from a library, so that the same module trains with fused attention and exports to ONNX,
and so that it is trained on piece embeddings near those that ship: rounded (`weight_packing.py`) before
training begins. The
export rounds them again, which moves them little.
"""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from archqa.engine import weight_packing
from archqa.engine.windows import CLS, PAD, SEP, UNK

HEADS = 12
HEADS_PER_CHUNK = 4
"""Heads that an exported graph works out together, so that a long note does not need room for all."""
POSITION_OFFSET = 2
VOCAB_OFFSET = 4
"""MPNet's vocabulary is BERT's with four pieces before it."""
SPECIAL = {PAD: 1, CLS: 0, SEP: 2, UNK: 3}
"""BERT's special pieces and the rows of MPNet's own."""
EXACT_DISTANCE_BUCKETS, FARTHEST = 8, 128
"""Distances that have a bucket each, and the one from which on all share the last."""


class Embeddings(nn.Module):
    """Pieces, by their BERT ids, and where they stand; never trained."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.pieces = _table(_rounded(_by_bert_id(weights["embeddings.word_embeddings.weight"])))
        self.places = _table(weights["embeddings.position_embeddings.weight"][POSITION_OFFSET:])
        self.known: int = self.places.num_embeddings
        self.norm = _norm(weights, "embeddings.LayerNorm")
        self.requires_grad_(False)

    def forward(self, pieces: Tensor) -> Tensor:
        """A vector for each piece."""
        at = torch.arange(pieces.shape[1], device=pieces.device)
        normed: Tensor = self.norm(self.pieces(pieces) + self.places(_place(at, self.known)))
        return normed


class MpnetLayer(nn.Module):
    """Attention with a bias for each distance, then two linear maps; the norm comes after each."""

    def __init__(self, weights: Mapping[str, Tensor], at: int) -> None:
        super().__init__()
        name = f"encoder.layer.{at}."
        self.query, self.key, self.value, self.out = (
            _linear(weights, f"{name}attention.attn.{each}") for each in ("q", "k", "v", "o")
        )
        self.attended = _norm(weights, f"{name}attention.LayerNorm")
        self.wide = _linear(weights, f"{name}intermediate.dense")
        self.narrow = _linear(weights, f"{name}output.dense")
        self.norm = _norm(weights, f"{name}output.LayerNorm")

    def forward(self, hidden: Tensor, biases: Sequence[Tensor]) -> Tensor:
        """A bias, of some heads, is added to what each of them makes of each pair of pieces."""
        query, key, value = (
            self._heads(each(hidden)) for each in (self.query, self.key, self.value)
        )
        seen = _attended(query, key, value, biases)
        middle = self.attended(hidden + self.out(seen.transpose(1, 2).flatten(2)))
        found: Tensor = self.norm(middle + self.narrow(gelu(self.wide(middle))))
        return found

    def _heads(self, mapped: Tensor) -> Tensor:
        return mapped.view(*mapped.shape[:2], HEADS, -1).transpose(1, 2)


class MpnetEncoder(nn.Module):
    """Pieces, of shape (windows, length), in; a vector of `size` for each out. `still` lower layers are not trained."""

    def __init__(
        self, weights: Mapping[str, Tensor], layers: int, longest: int, still: int = 0
    ) -> None:
        super().__init__()
        self.embeddings = Embeddings(weights)
        self.layers = nn.ModuleList(MpnetLayer(weights, at) for at in range(layers))
        self.layers[:still].requires_grad_(False)
        self.size: int = self.embeddings.pieces.embedding_dim
        self.longest = longest
        buckets = _buckets(torch.arange(1 - longest, longest))
        self.by_distance: Tensor
        self.register_buffer(
            "by_distance", weights["encoder.relative_attention_bias.weight"][buckets].T.contiguous()
        )

    def forward(self, pieces: Tensor, hidden_pieces: Tensor | None = None) -> Tensor:
        """`hidden_pieces` is 1 where no piece may look, of the pieces' shape; None where all may."""
        length = pieces.shape[1]
        at_once = HEADS_PER_CHUNK if torch.onnx.is_in_onnx_export() else HEADS
        biases = [each[:, :length, :length][None] for each in self._between(at_once)]
        if hidden_pieces is not None:
            biases = [each - 1e4 * hidden_pieces[:, None, None] for each in biases]
        hidden: Tensor = self.embeddings(pieces)
        for layer in self.layers:
            hidden = layer(hidden, biases)
        return hidden

    def _between(self, at_once: int) -> list[Tensor]:
        """Of all places that there can be: onnxruntime then works it out once, when it loads the graph.

        Places are counted from numbers that the module holds: else the exporter would work the table of distances out
        and write it, megabytes, into the graph.
        """
        ones = 0 * self.by_distance[0, : self.longest] + 1
        at = torch.cumsum(ones, 0).long()
        apart = at[None] - at[:, None] + self.longest - 1
        return [heads[:, apart] for heads in torch.split(self.by_distance, at_once)]


def _attended(query: Tensor, key: Tensor, value: Tensor, biases: Sequence[Tensor]) -> Tensor:
    """As many heads at once as a bias is for. The scale is a plain number, which a graph joins to the product."""
    scale = 1 / math.sqrt(int(query.shape[-1]))
    parts = (torch.split(each, HEADS // len(biases), 1) for each in (query, key, value))
    seen = [
        scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype), scale=scale)
        for q, k, v, bias in zip(*parts, biases, strict=True)
    ]
    return torch.cat(seen, 1)


def _place(at: Tensor, known: int) -> Tensor:
    """Beyond the places that MPNet knows, its upper half again: how far apart two pieces are, the bias says."""
    half = known // 2
    return torch.where(at < known, at, half + (at - known) % half)


def _buckets(distance: Tensor) -> Tensor:
    """The bucket of each distance, as in T5 (Raffel et al. 2020, section 2.1): one each when near, then log-spaced."""
    far = distance.abs().clamp(min=EXACT_DISTANCE_BUCKETS).float() / EXACT_DISTANCE_BUCKETS
    spaced = (
        EXACT_DISTANCE_BUCKETS
        + (
            torch.log(far) / math.log(FARTHEST / EXACT_DISTANCE_BUCKETS) * EXACT_DISTANCE_BUCKETS
        ).long()
    )
    one_sided = torch.where(
        distance.abs() < EXACT_DISTANCE_BUCKETS,
        distance.abs(),
        spaced.clamp(max=2 * EXACT_DISTANCE_BUCKETS - 1),
    )
    return one_sided + 2 * EXACT_DISTANCE_BUCKETS * (distance > 0).long()


def _by_bert_id(table: Tensor) -> Tensor:
    ordered = table[VOCAB_OFFSET:-1].clone()  # the last is MPNet's own mask
    for bert, own in SPECIAL.items():
        ordered[bert] = table[own]
    return ordered


def _rounded(table: Tensor) -> Tensor:
    return torch.from_numpy(
        weight_packing.dequantise(
            weight_packing.pack_weights(table.numpy(), most=weight_packing.EMBEDDING_MAX_CODE)
        )
    )


def _table(rows: Tensor) -> nn.Embedding:
    return nn.Embedding(rows.shape[0], rows.shape[1], _weight=rows)


def _linear(weights: Mapping[str, Tensor], name: str) -> nn.Linear:
    outward, inward = weights[f"{name}.weight"].shape
    made = nn.Linear(inward, outward)
    made.load_state_dict({part: weights[f"{name}.{part}"] for part in ("weight", "bias")})
    return made


def _norm(weights: Mapping[str, Tensor], name: str) -> nn.LayerNorm:
    made = nn.LayerNorm(len(weights[f"{name}.weight"]), eps=1e-5)
    made.load_state_dict({part: weights[f"{name}.{part}"] for part in ("weight", "bias")})
    return made
