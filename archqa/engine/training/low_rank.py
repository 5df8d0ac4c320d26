"""Fine-tuning by updates of low rank (LoRA, Hu et al. 2021, arXiv:2106.09685). Needs the extra `train`.

A network that is trained on from another one needs only its updates beside the other one's weights:
a thirtieth of their size.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

RANK = 32


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
