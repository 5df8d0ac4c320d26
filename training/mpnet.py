"""MPNet in PyTorch (Song et al. 2020, arXiv:2004.09297), with the weights of all-mpnet-base-v2.

Written out rather than taken from a library, so that the same module trains with fused attention
and exports to ONNX, and so that it is trained on token embeddings that are already quantised
(`packing.py`): the export quantises them again, which changes them little. Module names are
names in the shipped ONNX graph.
"""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from archqa.engine.windows import CLS, PAD, SEP, UNK
from training.packing import EMBEDDING_MAX_CODE, quantise

HEADS = 12
HEADS_PER_CHUNK = 4
"""Heads that an exported graph computes together; fewer need less memory for long notes."""
POSITION_OFFSET = 2
"""Rows before the first position in MPNet's table of positions."""
VOCAB_OFFSET = 4
"""MPNet's vocabulary is BERT's with four tokens before it."""
MPNET_ID_OF_SPECIAL_TOKEN = {PAD: 1, CLS: 0, SEP: 2, UNK: 3}
"""MPNet's ids by BERT's ids."""
EXACT_DISTANCE_BUCKETS = 8
"""Distances that have a bucket of their own."""
MAX_DISTANCE = 128
"""Distances from here on share the last bucket."""


class Embeddings(nn.Module):
    """Embeddings of tokens, by their BERT ids, and of positions; never trained."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        token_table = reorder_to_bert_ids(weights["embeddings.word_embeddings.weight"])
        position_table = weights["embeddings.position_embeddings.weight"][
            POSITION_OFFSET:
        ]
        self.pieces = _embedding(_quantise_embeddings(token_table))
        self.places = _embedding(position_table)
        self.positions: int = self.places.num_embeddings
        self.norm = _layer_norm(weights, "embeddings.LayerNorm")
        self.requires_grad_(False)

    def forward(self, pieces: Tensor) -> Tensor:
        """Return a vector for each token, of shape (windows, length, size)."""
        position = torch.arange(pieces.shape[1], device=pieces.device)
        position_row = position_index(position, self.positions)
        summed = self.pieces(pieces) + self.places(position_row)
        normed: Tensor = self.norm(summed)
        return normed


class MpnetLayer(nn.Module):
    """Attention with a bias for each distance, then a feed-forward layer; the norm follows each."""

    def __init__(self, weights: Mapping[str, Tensor], index: int) -> None:
        super().__init__()
        name = f"encoder.layer.{index}."
        self.query = _linear(weights, f"{name}attention.attn.q")
        self.key = _linear(weights, f"{name}attention.attn.k")
        self.value = _linear(weights, f"{name}attention.attn.v")
        self.out = _linear(weights, f"{name}attention.attn.o")
        self.attended = _layer_norm(weights, f"{name}attention.LayerNorm")
        self.wide = _linear(weights, f"{name}intermediate.dense")
        self.narrow = _linear(weights, f"{name}output.dense")
        self.norm = _layer_norm(weights, f"{name}output.LayerNorm")

    def forward(self, hidden: Tensor, biases: Sequence[Tensor]) -> Tensor:
        """Return the layer's output; `biases`, of some heads each, are added to the scores."""
        query = _split_heads(self.query(hidden))
        key = _split_heads(self.key(hidden))
        value = _split_heads(self.value(hidden))
        attention = _attention(query, key, value, biases)
        joined_heads = attention.transpose(1, 2).flatten(2)
        attended = self.attended(hidden + self.out(joined_heads))
        units = gelu(self.wide(attended))
        output: Tensor = self.norm(attended + self.narrow(units))
        return output


class MpnetEncoder(nn.Module):
    """Token ids of shape (windows, length) in, a vector of `size` for each token out.

    The lower `frozen_layers` are not trained.
    """

    def __init__(
        self,
        weights: Mapping[str, Tensor],
        layers: int,
        max_length: int,
        frozen_layers: int = 0,
    ) -> None:
        super().__init__()
        self.embeddings = Embeddings(weights)
        self.layers = nn.ModuleList(
            MpnetLayer(weights, index) for index in range(layers)
        )
        self.layers[:frozen_layers].requires_grad_(False)
        self.size: int = self.embeddings.pieces.embedding_dim
        self.max_length = max_length
        bucket = _distance_bucket(torch.arange(1 - max_length, max_length))
        bias_of_distance = weights["encoder.relative_attention_bias.weight"][bucket]
        self.by_distance: Tensor
        self.register_buffer("by_distance", bias_of_distance.T.contiguous())

    def forward(self, pieces: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """Encode the tokens; `padding_mask` is 1 for tokens not to attend to, None for none."""
        length = pieces.shape[1]
        heads_per_chunk = HEADS_PER_CHUNK if torch.onnx.is_in_onnx_export() else HEADS
        biases = []
        for all_positions in self.relative_biases(heads_per_chunk):
            bias = all_positions[:, :length, :length][None]
            if padding_mask is not None:
                bias = bias - 1e4 * padding_mask[:, None, None]
            biases.append(bias)
        hidden: Tensor = self.embeddings(pieces)
        for layer in self.layers:
            hidden = layer(hidden, biases)
        return hidden

    def limit_length(self, max_length: int) -> None:
        """Read windows of at most `max_length` tokens: a shorter table is faster to load."""
        surplus = self.max_length - max_length
        longest_distance = self.by_distance.shape[1] - surplus
        self.by_distance = self.by_distance[:, surplus:longest_distance].contiguous()
        self.max_length = max_length

    def relative_biases(self, heads_per_chunk: int) -> list[Tensor]:
        """Return the attention biases of all positions, each of shape (heads, length, length).

        onnxruntime computes them once, when it loads the graph. Positions are counted from a buffer
        of the module: of constants, the exporter would write the whole table, megabytes, into the
        graph.
        """
        ones = 0 * self.by_distance[0, : self.max_length] + 1
        position = torch.cumsum(ones, 0).long()
        distance = position[None] - position[:, None] + self.max_length - 1
        chunks = torch.split(self.by_distance, heads_per_chunk)
        return [chunk[:, distance] for chunk in chunks]


def _split_heads(mapped: Tensor) -> Tensor:
    return mapped.view(*mapped.shape[:2], HEADS, -1).transpose(1, 2)


def _attention(
    query: Tensor, key: Tensor, value: Tensor, biases: Sequence[Tensor]
) -> Tensor:
    """Attend with as many heads at once as a bias has.

    The scale is a plain number, which the exporter merges into the product.
    """
    scale = 1 / math.sqrt(int(query.shape[-1]))
    heads_per_chunk = HEADS // len(biases)
    queries = torch.split(query, heads_per_chunk, 1)
    keys = torch.split(key, heads_per_chunk, 1)
    values = torch.split(value, heads_per_chunk, 1)
    outputs = [
        scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype), scale=scale)
        for q, k, v, bias in zip(queries, keys, values, biases, strict=True)
    ]
    return torch.cat(outputs, 1)


def position_index(position: Tensor, positions: int) -> Tensor:
    """Return rows of the position table; beyond its end, the upper half repeats.

    The distance of two tokens is known from the relative bias.
    """
    half = positions // 2
    repeated = half + (position - positions) % half
    return torch.where(position < positions, position, repeated)


def _distance_bucket(distance: Tensor) -> Tensor:
    """Return the bucket of each distance, as in T5 (Raffel et al. 2020, section 2.1).

    Near distances have a bucket each; the buckets of far ones are spaced logarithmically.
    """
    exact = EXACT_DISTANCE_BUCKETS
    absolute = distance.abs()
    relative = absolute.clamp(min=exact).float() / exact
    log_position = torch.log(relative) / math.log(MAX_DISTANCE / exact) * exact
    far_bucket = exact + log_position.long()
    far_bucket = far_bucket.clamp(max=2 * exact - 1)
    bucket = torch.where(absolute < exact, absolute, far_bucket)
    is_after = (distance > 0).long()
    return bucket + 2 * exact * is_after


def reorder_to_bert_ids(table: Tensor) -> Tensor:
    """Return MPNet's token embeddings by BERT's ids, without MPNet's mask (the last row)."""
    ordered = table[VOCAB_OFFSET:-1].clone()
    for bert_id, mpnet_id in MPNET_ID_OF_SPECIAL_TOKEN.items():
        ordered[bert_id] = table[mpnet_id]
    return ordered


def _quantise_embeddings(table: Tensor) -> Tensor:
    return torch.from_numpy(quantise(table.numpy(), max_code=EMBEDDING_MAX_CODE))


def _embedding(rows: Tensor) -> nn.Embedding:
    return nn.Embedding(rows.shape[0], rows.shape[1], _weight=rows)


def _linear(weights: Mapping[str, Tensor], name: str) -> nn.Linear:
    outputs, inputs = weights[f"{name}.weight"].shape
    layer = nn.Linear(inputs, outputs)
    layer.load_state_dict(_weight_and_bias(weights, name))
    return layer


def _layer_norm(weights: Mapping[str, Tensor], name: str) -> nn.LayerNorm:
    norm = nn.LayerNorm(len(weights[f"{name}.weight"]), eps=1e-5)
    norm.load_state_dict(_weight_and_bias(weights, name))
    return norm


def _weight_and_bias(weights: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    return {
        "weight": weights[f"{name}.weight"],
        "bias": weights[f"{name}.bias"],
    }
