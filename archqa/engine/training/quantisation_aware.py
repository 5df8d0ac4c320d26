"""Trains a network as it will be read from its file: with weights of few bits. Needs the training extra.

The weights are rounded on their way into each map, the gradient passes as if they were not (straight-through, Bengio
et al. 2013, arXiv:1308.3432). What is learned so loses little when it is packed; eleven steps a weight
(`weight_packing.MAPS`)
would else cost some three points of average precision (README.md).
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from archqa.engine import weight_packing
from archqa.engine.training.network import CrossEncoderNetwork

STEPS_BETWEEN_RESCALING = 40
"""Steps between two looks at which factor fits a block: looking takes as long as several steps."""


class Nearest(nn.Module):
    """A weight as its packed form stands for it; the gradient is that of the weight itself."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0
        self.step = torch.zeros(0)

    def forward(self, weight: Tensor) -> Tensor:
        """Of the shape of `weight`."""
        with torch.no_grad():
            if self.seen % STEPS_BETWEEN_RESCALING == 0:
                self.step = _step(weight)
            self.seen += 1
            parts = weight.view(*self.step.shape[:2], -1)
            nearest = (
                (parts / self.step)
                .round_()
                .clamp_(-weight_packing.LAYER_MAX_CODE, weight_packing.LAYER_MAX_CODE)
                .mul_(self.step)
            )
            missed = nearest.view_as(weight) - weight
        return weight + missed


def enable_fake_quantisation(network: CrossEncoderNetwork) -> None:
    """From here on the network's layers read with rounded weights; those that stay still are rounded for good."""
    for layer in linear_layers(network):
        if layer.weight.requires_grad:
            parametrize.register_parametrization(layer, "weight", Nearest())
        else:
            layer.weight.copy_(_rounded(layer.weight))


def disable_fake_quantisation(network: CrossEncoderNetwork) -> None:
    """The weights behind the rounded ones are the network's own again."""
    for layer in linear_layers(network):
        if parametrize.is_parametrized(layer):
            parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)


def linear_layers(network: CrossEncoderNetwork) -> Iterator[nn.Linear]:
    """The linear maps of the encoder's layers."""
    return (each for each in network.encoder.modules() if isinstance(each, nn.Linear))


def _rounded(weight: Tensor) -> Tensor:
    return torch.from_numpy(
        weight_packing.dequantise(
            weight_packing.pack_weights(
                weight.detach().numpy(),
                weight_packing.LAYER_BLOCK_SIZE,
                weight_packing.LAYER_MAX_CODE,
            )
        )
    )


def _step(weight: Tensor) -> Tensor:
    """From one code to the next: (rows, blocks, 1)."""
    scale, factors = weight_packing.scales_and_factors(
        weight.numpy(), weight_packing.LAYER_BLOCK_SIZE, weight_packing.LAYER_MAX_CODE
    )
    return torch.from_numpy(scale[:, None] * factors)[..., None]
