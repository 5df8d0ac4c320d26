"""Structured pruning: makes a trained network narrower, so that it runs faster.

The feed-forward layers of MPNet (3,072 units each) are two thirds of the work. The units whose
removal would change the loss least are dropped, by first-order Taylor importance (Molchanov et al.
2019, arXiv:1906.10771, section 3), and the layer that follows is refitted by least squares, so that
the remaining units make up for them. Layers differ in how much they need: the lower ones keep most
units, the upper ones few.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from training.mpnet import MpnetLayer
from training.network import CrossEncoderNetwork
from training.packing import LAYER_BLOCK_SIZE

RIDGE = 1e-3
"""Relative to the mean square of a unit: keeps weights near the old where data are scarce."""

Loss = Callable[[], Tensor]


class UnitStatistics(NamedTuple):
    """Statistics of a layer's units over all tokens.

    `importance` is of shape (units,); `products`, the sums of products of two units, of shape
    (units, units).
    """

    importance: Tensor
    products: Tensor


def prune_units(
    model: CrossEncoderNetwork, losses: Iterable[Loss], units_per_layer: int
) -> None:
    """Keep the most important units, `units_per_layer` on average. A loss is of one window."""
    layers = [layer for layer in model.encoder.layers if isinstance(layer, MpnetLayer)]
    statistics = _collect_statistics(model, layers, losses)
    sizes = layer_sizes([units.importance for units in statistics], units_per_layer)
    for layer, units, size in zip(layers, statistics, sizes, strict=True):
        _prune_layer(layer, units, size)


def _prune_layer(layer: MpnetLayer, units: UnitStatistics, size: int) -> None:
    remaining = torch.topk(units.importance, size).indices.sort().values
    refitted = _refit(layer.narrow.weight.detach(), units.products, remaining)
    is_trainable = layer.wide.weight.requires_grad
    wide_weight = layer.wide.weight[remaining]
    wide_bias = layer.wide.bias[remaining]
    layer.wide = _linear(wide_weight, wide_bias, is_trainable)
    layer.narrow = _linear(refitted, layer.narrow.bias, is_trainable)


def layer_sizes(importance: list[Tensor], units_per_layer: int) -> list[int]:
    """Return the units of each layer: whole blocks of a packed weight, at least one a layer.

    Blocks are assigned one by one to the layer where the next block is most important.
    """
    block_importance = [_block_importance(units) for units in importance]
    blocks = [1] * len(importance)
    blocks_per_layer = units_per_layer // LAYER_BLOCK_SIZE
    for _ in range(len(importance) * (blocks_per_layer - 1)):
        gains = []
        for by_block, used in zip(block_importance, blocks, strict=True):
            has_block_left = used < len(by_block)
            gains.append(float(by_block[used]) if has_block_left else -1.0)
        blocks[gains.index(max(gains))] += 1
    return [used * LAYER_BLOCK_SIZE for used in blocks]


def _block_importance(units: Tensor) -> Tensor:
    """Return the summed importance of blocks of units, the most important units first."""
    ranked = units.sort(descending=True).values
    return ranked.view(-1, LAYER_BLOCK_SIZE).sum(1)


def _collect_statistics(
    model: CrossEncoderNetwork,
    layers: list[MpnetLayer],
    losses: Iterable[Loss],
) -> list[UnitStatistics]:
    statistics = []
    hooks = []
    activations: dict[int, Tensor] = {}
    for index, layer in enumerate(layers):
        size = layer.narrow.in_features
        statistics.append(UnitStatistics(torch.zeros(size), torch.zeros(size, size)))
        record_input = _record_input(activations, index)
        hooks.append(layer.narrow.register_forward_pre_hook(record_input))
    model.eval()
    for loss in losses:
        value = loss()
        inputs = [activations[index] for index in range(len(layers))]
        gradients = torch.autograd.grad(value, inputs)
        for index, gradient in enumerate(gradients):
            # Sums need float32; activations are bfloat16 on some processors.
            units = activations[index].detach()[0].float()
            effect = (gradient[0] * units).sum(0)
            statistics[index].importance.add_(effect.abs())
            statistics[index].products.add_(units.T @ units)
    for hook in hooks:
        hook.remove()
    return statistics


def _record_input(
    activations: dict[int, Tensor], index: int
) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
    """Return a hook that records a layer's input, with a gradient even in frozen layers."""

    def record(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        (units,) = inputs
        if not units.requires_grad:
            units = units.requires_grad_()
        activations[index] = units

    return record


def _refit(weight: Tensor, products: Tensor, remaining: Tensor) -> Tensor:
    """Return the weight (outputs, remaining units) that best reproduces the layer's outputs."""
    products = products.double()
    weight = weight.double()
    remaining_products = products[remaining][:, remaining]
    ridge = RIDGE * remaining_products.diag().mean()
    target = products[remaining] @ weight.T
    target = target + ridge * weight[:, remaining].T
    penalised = remaining_products + ridge * torch.eye(len(remaining))
    refitted: Tensor = torch.linalg.solve(penalised, target).T.float()
    return refitted


def _linear(weight: Tensor, bias: Tensor, is_trainable: bool) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0])
    layer.load_state_dict({"weight": weight, "bias": bias})
    return layer.requires_grad_(is_trainable)
