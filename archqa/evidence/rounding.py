"""Trains a network as it will be read from its file: with weights of few bits. Needs the training extra.

The weights are rounded on their way into each map, the gradient passes as if they were not (straight-through, Bengio
et al. 2013, arXiv:1308.3432). What is learned so loses little when it is packed; eleven steps a weight (`packing.MAPS`)
would else cost some three points of average precision (README.md).
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from archqa.evidence import packing
from archqa.evidence.reader_network import Network

EVERY = 40
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
            if self.seen % EVERY == 0:
                self.step = _step(weight)
            self.seen += 1
            parts = weight.view(*self.step.shape[:2], -1)
            nearest = (parts / self.step).round_().clamp_(-packing.MAPS, packing.MAPS).mul_(self.step)
            missed = nearest.view_as(weight) - weight
        return weight + missed


def begin(network: Network) -> None:
    """From here on the network's layers read with rounded weights; those that stay still are rounded for good."""
    for layer in maps(network):
        if layer.weight.requires_grad:
            parametrize.register_parametrization(layer, "weight", Nearest())
        else:
            layer.weight.copy_(_rounded(layer.weight))


def end(network: Network) -> None:
    """The weights behind the rounded ones are the network's own again."""
    for layer in maps(network):
        if parametrize.is_parametrized(layer):
            parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)


def maps(network: Network) -> Iterator[nn.Linear]:
    """The linear maps of the encoder's layers."""
    return (each for each in network.encoder.modules() if isinstance(each, nn.Linear))


def _rounded(weight: Tensor) -> Tensor:
    return torch.from_numpy(packing.restored(packing.pack(weight.detach().numpy(), packing.WIDE, packing.MAPS)))


def _step(weight: Tensor) -> Tensor:
    """From one code to the next: (rows, blocks, 1)."""
    scale, factors = packing.factors_of(weight.numpy(), packing.WIDE, packing.MAPS)
    return torch.from_numpy(scale[:, None] * factors)[..., None]
