"""Training of the cross-encoder on labelled cases.

Training may be quantisation-aware: the network then computes with weights of few bits, as its file
will. The weights are quantised in the forward pass, and the gradient passes unchanged
(straight-through estimator, Bengio et al. 2013, arXiv:1308.3432). What is learned this way loses
little when it is packed; eleven levels a weight (`packing.LAYER_MAX_CODE`) would otherwise cost some
three points of average precision (engine-log.md).
"""

import copy
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.nn.utils import parametrize

from archqa.core.case import Case, Sentence
from archqa.core.judgement import LABEL_WEIGHT, Relevance
from archqa.core.key import CaseKey
from archqa.engine.encoders import network_inputs
from archqa.engine.windows import TokenWindow, build_windows
from archqa.notes.sections import sentence_positions
from training.network import CrossEncoderNetwork
from training.packing import (
    LAYER_BLOCK_SIZE,
    LAYER_MAX_CODE,
    quantise,
    scales_and_factors,
)
from training.regression import LabelledCase, ProgressCallback

EpochSampler = Callable[[], list[LabelledCase]]
"""Returns the cases of one epoch; called anew for each epoch."""
SORTED_BATCHES = 32
"""Batches within which windows are sorted by length."""
HEAD_RATE_FACTOR = 10
"""The head, which starts from nothing, learns this much faster than the encoder."""
MAX_GRADIENT_NORM = 1.0
WEIGHT_DECAY = 0.01
STEPS_BETWEEN_RESCALING = 40
"""Steps between two searches for block factors: a search takes as long as several steps."""


class WindowTargets(NamedTuple):
    """A window and, for each of its sentences, the target probability."""

    window: TokenWindow
    targets: list[float]


class WindowExample(Protocol):
    """What is learned from one window."""

    @property
    def window(self) -> TokenWindow:
        """The network's input."""
        ...


Example = TypeVar("Example", bound=WindowExample)


class TrainingConfig(NamedTuple):
    """How the cross-encoder is trained; chosen on unseen cases and on dev (engine-log.md)."""

    epochs: int = 1
    learning_rate: float = 5e-5
    batch_size: int = 4
    frozen_layers: int = 4
    """Lower layers that are not trained: they take time, and few cases cannot improve them."""
    warmup_fraction: float = 0.08
    shuffle_probability: float = 0.5
    question_dropout: float = 0.3
    seed: int = 0


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


def _step_size(weight: Tensor) -> Tensor:
    """Return the difference of two neighbouring levels, of shape (rows, blocks, 1)."""
    scale, factors = scales_and_factors(
        weight.numpy(), LAYER_BLOCK_SIZE, LAYER_MAX_CODE
    )
    return torch.from_numpy(scale[:, None] * factors)[..., None]


def train_quantisation_aware(
    model: CrossEncoderNetwork,
    sample_epoch: EpochSampler,
    config: TrainingConfig,
    *,
    progress: ProgressCallback,
) -> CrossEncoderNetwork:
    """As `train_network`, with quantised weights in the forward pass; returns unquantised ones."""
    enable_fake_quantisation(model)
    train_network(model, sample_epoch, config, progress=progress)
    disable_fake_quantisation(model)
    return model


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
            parametrize.remove_parametrizations(
                layer, "weight", leave_parametrized=False
            )


def linear_layers(network: CrossEncoderNetwork) -> Iterator[nn.Linear]:
    """Yield the linear layers of the encoder."""
    for module in network.encoder.modules():
        if isinstance(module, nn.Linear):
            yield module


def quantise_layer(weight: Tensor) -> Tensor:
    """Return the weight of a layer as its packed form represents it."""
    return torch.from_numpy(
        quantise(weight.detach().numpy(), LAYER_BLOCK_SIZE, LAYER_MAX_CODE)
    )


def train_network(
    model: CrossEncoderNetwork,
    sample_epoch: EpochSampler,
    config: TrainingConfig,
    *,
    progress: ProgressCallback,
) -> CrossEncoderNetwork:
    """Train the module and return it; the learning rate rises and falls once.

    The same samples and configuration give the same weights on the same machine.
    """
    torch.manual_seed(config.seed)
    random.seed(config.seed)
    optimizer = new_optimizer(model, config)
    for epoch in range(config.epochs):
        examples: list[WindowTargets] = []
        for case, key in sample_epoch():
            examples += _window_targets(augment(case, config), key)
        batches = make_batches(examples, config.batch_size)
        for batch_index, batch in enumerate(batches):
            done = (epoch + batch_index / len(batches)) / config.epochs
            set_learning_rate(optimizer, config, done)
            training_step(model, optimizer, partial(_loss, model, batch))
            stage = f"epoch {epoch + 1} of {config.epochs}, batches"
            progress(stage, batch_index + 1, len(batches))
    return model.eval()


def average_weights(models: list[CrossEncoderNetwork]) -> CrossEncoderNetwork:
    """Return a module with the mean of the weights of several modules of the same shape."""
    average = copy.deepcopy(models[0])
    states = [model.state_dict() for model in models]
    mean_state = {}
    for name in states[0]:
        total = sum(state[name] for state in states)
        mean_state[name] = total / len(states)
    average.load_state_dict(mean_state)
    return average


def make_batches(examples: list[Example], batch_size: int) -> list[list[Example]]:
    """Return batches in random order, of windows of similar length.

    Otherwise a fifth of the computation would be padding.
    """
    random.shuffle(examples)
    batches: list[list[Example]] = []
    chunk_size = SORTED_BATCHES * batch_size
    for chunk_start in range(0, len(examples), chunk_size):
        chunk = examples[chunk_start : chunk_start + chunk_size]
        chunk.sort(key=lambda example: len(example.window.token_ids))
        for start in range(0, len(chunk), batch_size):
            batches.append(chunk[start : start + batch_size])
    random.shuffle(batches)
    return batches


def augment(case: Case, config: TrainingConfig) -> Case:
    """Return the case with its problems reordered, or a part of its question dropped, at random."""
    sentences = case.sentences
    if random.random() < config.shuffle_probability:
        sentences = _reorder_blocks(case)
    if random.random() < config.question_dropout:
        clinician_alone = case.model_copy(
            update={"patient_narrative": "", "patient_question": ()}
        )
        patient_alone = case.model_copy(update={"clinician_question": ""})
        case = random.choice((case, clinician_alone, patient_alone))
    return case.model_copy(update={"sentences": sentences})


def _reorder_blocks(case: Case) -> tuple[Sentence, ...]:
    """Shuffle the blocks of each paragraph; the first block, often a heading, stays first."""
    paragraphs: dict[str, dict[int, list[Sentence]]] = {}
    for sentence, position in zip(
        case.sentences, sentence_positions(case), strict=True
    ):
        blocks = paragraphs.setdefault(sentence.paragraph_id, {})
        blocks.setdefault(position.block, []).append(sentence)
    reordered: list[Sentence] = []
    for blocks in paragraphs.values():
        opening, *others = blocks.values()
        random.shuffle(others)
        for block in (opening, *others):
            reordered += block
    return tuple(reordered)


def _window_targets(case: Case, key: CaseKey) -> list[WindowTargets]:
    """Return the windows of a case with the weights of its labels; supplementary counts partly."""
    weights = []
    for sentence in case.sentences:
        label = key.labels.get(sentence.id, Relevance.NOT_RELEVANT)
        weights.append(LABEL_WEIGHT[label])
    examples = []
    for window in build_windows(case):
        targets = [weights[span.sentence_index] for span in window.spans]
        examples.append(WindowTargets(window, targets))
    return examples


def window_losses(
    model: CrossEncoderNetwork, labelled_cases: list[LabelledCase]
) -> Iterator[Callable[[], Tensor]]:
    """Yield, for each window of the cases, a function that computes its loss."""
    for case, key in labelled_cases:
        for example in _window_targets(case, key):
            yield partial(_loss, model, [example])


def _loss(model: CrossEncoderNetwork, batch: list[WindowTargets]) -> Tensor:
    """Return the cross-entropy, the mean over the sentences of a batch."""
    batch_logits = logits_of_windows(model, [example.window for example in batch])
    total_loss = torch.zeros(())
    sentences = 0
    for row, example in enumerate(batch):
        targets = torch.tensor(example.targets)
        window_logits = batch_logits[row, : len(targets)]
        total_loss = total_loss + binary_cross_entropy_with_logits(
            window_logits, targets, reduction="sum"
        )
        sentences += len(targets)
    return total_loss / sentences


def logits(model: CrossEncoderNetwork, case: Case) -> NDArray[np.float64]:
    """As `CrossEncoder.logits`, by the torch module."""
    total = np.zeros(len(case.sentences))
    windows = np.zeros(len(case.sentences))
    for window in build_windows(case):
        indices = [span.sentence_index for span in window.spans]
        with torch.no_grad():
            window_logits = model(**collate([window]))[0]
        total[indices] += window_logits.numpy()
        windows[indices] += 1
    return total / np.maximum(windows, 1)


def logits_of_windows(model: CrossEncoderNetwork, windows: list[TokenWindow]) -> Tensor:
    """Return logits (windows, sentences) on the CPU, computed where the model is."""
    device = next(model.parameters()).device
    inputs = {name: tensor.to(device) for name, tensor in collate(windows).items()}
    # bfloat16 is slower on processors without AMX or AVX-512.
    is_fast = device.type != "cpu" or torch.ops.mkldnn._is_mkldnn_bf16_supported()
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=is_fast):
        window_logits: Tensor = model(**inputs).float().cpu()
    return window_logits


def collate(windows: list[TokenWindow]) -> dict[str, Tensor]:
    """Return the inputs of several windows, padded with 0; the mask follows from the padding."""
    inputs = [network_inputs(window) for window in windows]
    tensors = {}
    for name in inputs[0]:
        arrays = [window_inputs[name] for window_inputs in inputs]
        largest = np.max([array.shape for array in arrays], axis=0)
        padded = np.zeros((len(arrays), *largest[1:]), dtype=arrays[0].dtype)
        for row, array in enumerate(arrays):
            used = tuple(slice(size) for size in array.shape[1:])
            padded[row][used] = array[0]
        tensors[name] = torch.from_numpy(padded)
    return tensors


def new_optimizer(
    model: CrossEncoderNetwork,
    config: TrainingConfig,
    head_rate_factor: float = HEAD_RATE_FACTOR,
) -> torch.optim.Optimizer:
    """Return an optimizer in which the head learns faster than the encoder."""
    encoder = [weight for weight in model.encoder.parameters() if weight.requires_grad]
    head = []
    for name, weight in model.named_parameters():
        if not name.startswith("encoder."):
            head.append(weight)
    groups = [
        {"params": encoder, "max_rate": config.learning_rate},
        {"params": head, "max_rate": config.learning_rate * head_rate_factor},
    ]
    return torch.optim.AdamW(groups, lr=config.learning_rate, weight_decay=WEIGHT_DECAY)


def set_learning_rate(
    optimizer: torch.optim.Optimizer, config: TrainingConfig, done: float
) -> None:
    """Set the rates for the fraction of training that is done."""
    rising = (done + 1e-3) / config.warmup_fraction
    falling = (1 - done) / (1 - config.warmup_fraction)
    for group in optimizer.param_groups:
        group["lr"] = group["max_rate"] * min(rising, falling)


def training_step(
    model: CrossEncoderNetwork,
    optimizer: torch.optim.Optimizer,
    loss: Callable[[], Tensor],
) -> None:
    """Follow the gradient of a loss for one step."""
    model.train()
    optimizer.zero_grad()
    torch.autograd.backward(loss())
    nn.utils.clip_grad_norm_(model.parameters(), MAX_GRADIENT_NORM)
    optimizer.step()
