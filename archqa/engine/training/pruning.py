"""Makes a trained network narrower, so that it reads faster. Needs the training extra.

The wide maps of MPNet's layers (3,072 units each) are two thirds of the work. The units whose silence would change the
loss least are dropped, by first-order Taylor importance (Molchanov et al. 2019, arXiv:1906.10771, section 3), and the
map that follows is fitted anew by least squares, so that those that stay stand in for those that go. Layers differ in
how much they need: the lower ones keep most, the upper ones next to nothing.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from archqa.engine import weight_packing
from archqa.engine.training.mpnet import MpnetLayer
from archqa.engine.training.network import CrossEncoderNetwork

RIDGE = 1e-3
"""Of the mean square of a unit: holds the new map to the old one where the units seen say nothing."""

Loss = Callable[[], Tensor]


class Units(NamedTuple):
    """What a layer's units did: `matters` (units,); `products` of each two over all pieces (units, units)."""

    matters: Tensor
    products: Tensor


def prune_units(model: CrossEncoderNetwork, losses: Iterable[Loss], width: int) -> None:
    """Leaves the units that matter most to the losses, `width` a layer on average. A loss is of one window."""
    layers = [layer for layer in model.encoder.layers if isinstance(layer, MpnetLayer)]
    seen = _seen(model, layers, losses)
    for layer, units, most in zip(
        layers, seen, _widths([each.matters for each in seen], width), strict=True
    ):
        kept = torch.topk(units.matters, most).indices.sort().values
        narrower = _fitted(layer.narrow.weight.detach(), units.products, kept)
        still = not layer.wide.weight.requires_grad
        layer.wide = _linear(layer.wide.weight[kept], layer.wide.bias[kept], still)
        layer.narrow = _linear(narrower, layer.narrow.bias, still)


def _widths(matters: list[Tensor], width: int) -> list[int]:
    """Of each layer: as many whole blocks of a packed weight as bring most, and one at least."""
    block = weight_packing.LAYER_BLOCK_SIZE
    gains = [each.sort(descending=True).values.view(-1, block) for each in matters]
    taken = [1] * len(matters)
    for _ in range(len(matters) * (width // block - 1)):
        left = [
            float(gain[had].sum()) if had < len(gain) else -1.0
            for gain, had in zip(gains, taken, strict=True)
        ]
        taken[left.index(max(left))] += 1
    return [had * block for had in taken]


def _seen(
    model: CrossEncoderNetwork, layers: list[MpnetLayer], losses: Iterable[Loss]
) -> list[Units]:
    found = [
        Units(torch.zeros(size), torch.zeros(size, size))
        for size in (each.narrow.in_features for each in layers)
    ]
    at_work: dict[int, Tensor] = {}
    hooks = [
        layer.narrow.register_forward_pre_hook(_keeper(at_work, at))
        for at, layer in enumerate(layers)
    ]
    model.eval()
    for loss in losses:
        gradients = torch.autograd.grad(loss(), [at_work[at] for at in range(len(layers))])
        for at, gradient in enumerate(gradients):
            units = (
                at_work[at].detach()[0].float()
            )  # where the processor takes short floats, too coarse to add up
            found[at].matters.add_((gradient[0] * units).sum(0).abs())
            found[at].products.add_(units.T @ units)
    for hook in hooks:
        hook.remove()
    return found


def _keeper(at_work: dict[int, Tensor], at: int) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
    """Keeps what goes into a map; of still layers too, whose units need no gradient for training."""

    def keep(_: nn.Module, given: tuple[Tensor, ...]) -> None:
        at_work[at] = given[0] if given[0].requires_grad else given[0].requires_grad_()

    return keep


def _fitted(weight: Tensor, products: Tensor, kept: Tensor) -> Tensor:
    """Of shape (outward, kept): what comes nearest to the whole map over all pieces seen."""
    double = products.double()
    mine = double[kept][:, kept]
    ridge = RIDGE * mine.diag().mean()
    wanted = double[kept] @ weight.double().T + ridge * weight[:, kept].double().T
    fitted: Tensor = torch.linalg.solve(mine + ridge * torch.eye(len(kept)), wanted).T.float()
    return fitted


def _linear(weight: Tensor, bias: Tensor, still: bool) -> nn.Linear:
    made = nn.Linear(weight.shape[1], weight.shape[0])
    made.load_state_dict({"weight": weight, "bias": bias})
    return made.requires_grad_(not still)
