"""Networks that are small enough to train and export in a test."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from training import loading

from .small_networks import CONFIG, SMALL

MODEL_SIZES = {
    "hidden_size": 384,
    "intermediate_size": 384,
    "num_hidden_layers": 2,
    "num_attention_heads": 12,
}


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with random weights of an MPNet of two layers of 384 units."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.MPNetConfig(**MODEL_SIZES, layer_norm_eps=1e-5)
    model = transformers.MPNetModel(config, add_pooling_layer=False)
    with torch.no_grad():
        # As initialised, all distances weigh the same, positions as much as tokens, and the
        # layers change too little for a test to notice.
        model.encoder.relative_attention_bias.weight.normal_()
        model.embeddings.position_embeddings.weight.mul_(0.1)
        for name, weight in model.encoder.named_parameters():
            if name.endswith(("dense.weight", ".v.weight", ".o.weight")):
                weight.mul_(3.0)
    folder = tmp_path_factory.mktemp("weights")
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def network(weights: Path) -> Any:
    return loading.new_network(weights, CONFIG, **SMALL).eval()


@pytest.fixture
def perturbed_network(network: Any) -> Any:
    """A network without equal weights: the exporter would store equal ones once."""
    torch.manual_seed(1)
    perturbed = copy.deepcopy(network)
    for weight in perturbed.parameters():
        weight.data += 0.005 * torch.randn_like(weight)
    return perturbed
