"""Quantisation-aware training: the network computes with weights of few bits, as its file will.

The weights are quantised in the forward pass, and the gradient passes unchanged (straight-through
estimator, Bengio et al. 2013, arXiv:1308.3432). What is learned this way loses little when it is
packed; eleven levels a weight (`weight_packing.LAYER_MAX_CODE`) would otherwise cost some three
points of average precision (docs/engine-log.md). Needs the training extra.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from archqa.engine.training.network import CrossEncoderNetwork
from archqa.engine.weight_packing import (
    LAYER_BLOCK_SIZE,
    LAYER_MAX_CODE,
    quantise,
    scales_and_factors,
)

STEPS_BETWEEN_RESCALING = 40
"""Steps between two searches for block factors: a search takes as long as several steps."""


class FakeQuantisation(nn.Module):
    """Quantises a weight in the forward pass; the gradient is that of the weight itself."""

    def __init__(self) -> None:
        super().__init__()
        self.forward_passes = 0
        self.step_size = torch.zeros(0)

    def forward(self, weight: Tensor) -> Tensor:
        """Return the quantised weight, of the same shape."""
        with torch.no_grad():
            if self.forward_passes % STEPS_BETWEEN_RESCALING == 0:
                self.step_size = _step_size(weight)
            self.forward_passes += 1
            blocks = weight.view(*self.step_size.shape[:2], -1)
            codes = (blocks / self.step_size).round_()
            codes.clamp_(-LAYER_MAX_CODE, LAYER_MAX_CODE)
            quantised = codes.mul_(self.step_size).view_as(weight)
            error = quantised - weight
        return weight + error


def enable_fake_quantisation(network: CrossEncoderNetwork) -> None:
    """Quantise the layers' weights in every forward pass; frozen layers are quantised for good."""
    for layer in linear_layers(network):
        if layer.weight.requires_grad:
            parametrize.register_parametrization(layer, "weight", FakeQuantisation())
        else:
            layer.weight.copy_(quantise_layer(layer.weight))


def disable_fake_quantisation(network: CrossEncoderNetwork) -> None:
    """Restore the weights without quantisation."""
    for layer in linear_layers(network):
        if parametrize.is_parametrized(layer):
            parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)


def linear_layers(network: CrossEncoderNetwork) -> Iterator[nn.Linear]:
    """Yield the linear layers of the encoder."""
    for module in network.encoder.modules():
        if isinstance(module, nn.Linear):
            yield module


def quantise_layer(weight: Tensor) -> Tensor:
    """Return the weight of a layer as its packed form represents it."""
    return torch.from_numpy(quantise(weight.detach().numpy(), LAYER_BLOCK_SIZE, LAYER_MAX_CODE))


def _step_size(weight: Tensor) -> Tensor:
    """Return the difference of two neighbouring levels, of shape (rows, blocks, 1)."""
    scale, factors = scales_and_factors(weight.numpy(), LAYER_BLOCK_SIZE, LAYER_MAX_CODE)
    return torch.from_numpy(scale[:, None] * factors)[..., None]
