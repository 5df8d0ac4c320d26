"""Training of the cross-encoder on labelled cases. Needs the training extra."""

import copy
import random
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Case, Sentence
from archqa.core.judgement import Relevance
from archqa.core.key import CaseKey
from archqa.core.probability import LABEL_WEIGHT
from archqa.engine.cross_encoder import CROSS_ENCODER_FILE, network_inputs
from archqa.engine.training import base_weights
from archqa.engine.training.regression import LabelledCase, ProgressCallback
from archqa.engine.windows import TokenWindow, build_windows
from archqa.errors import MissingExtra
from archqa.notes.sections import sentence_positions

EpochSampler = Callable[[], list[LabelledCase]]
"""Returns the cases of one epoch; called anew for each epoch."""
REQUIRED_PACKAGES = ("torch", "safetensors", "onnx")
SORTED_BATCHES = 32
"""Batches within which windows are sorted by length."""
HEAD_RATE_FACTOR = 10
"""The head, which starts from nothing, learns this much faster than the encoder."""
MAX_GRADIENT_NORM = 1.0
WEIGHT_DECAY = 0.01


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
    """How the cross-encoder is trained; chosen on unseen cases and on dev (docs/engine-log.md)."""

    epochs: int = 1
    learning_rate: float = 5e-5
    batch_size: int = 4
    frozen_layers: int = 4
    """Lower layers that are not trained: they take time, and few cases cannot improve them."""
    warmup_fraction: float = 0.08
    shuffle_probability: float = 0.5
    question_dropout: float = 0.3
    seed: int = 0


def new_network(weights: Path, config: TrainingConfig, **sizes: int) -> Any:
    """Return an untrained network, a torch module, with pretrained weights from a folder.

    Raises MissingExtra when a package for training and export is absent.
    """
    _require_packages()
    import_torch().manual_seed(config.seed)
    from archqa.engine.training.network import CrossEncoderNetwork

    pretrained = base_weights.load_pretrained_weights(weights)
    return CrossEncoderNetwork(pretrained, config.frozen_layers, **sizes)


def load_default_network(config: TrainingConfig, graph_file: Path = CROSS_ENCODER_FILE) -> Any:
    """Return the cross-encoder's files as a torch module. Raises as `new_network`."""
    _require_packages()
    from archqa.engine.training import weight_import

    return weight_import.load_network(graph_file, config.frozen_layers)


def _require_packages() -> None:
    missing = [package for package in REQUIRED_PACKAGES if find_spec(package) is None]
    if missing:
        raise MissingExtra(f"What training the cross-encoder needs ({', '.join(missing)})", "train")


def train_quantisation_aware(
    model: Any,
    sample_epoch: EpochSampler,
    config: TrainingConfig,
    *,
    progress: ProgressCallback,
) -> Any:
    """As `train_network`, with quantised weights in the forward pass; returns unquantised ones."""
    from archqa.engine.training import quantisation_aware

    quantisation_aware.enable_fake_quantisation(model)
    train_network(model, sample_epoch, config, progress=progress)
    quantisation_aware.disable_fake_quantisation(model)
    return model


def train_network(
    model: Any,
    sample_epoch: EpochSampler,
    config: TrainingConfig,
    *,
    progress: ProgressCallback,
) -> Any:
    """Train the module and return it; the learning rate rises and falls once.

    The same samples and configuration give the same weights on the same machine.
    """
    import_torch().manual_seed(config.seed)
    random.seed(config.seed)
    optimizer = new_optimizer(model, config)
    for epoch in range(config.epochs):
        batches = make_batches(_epoch_examples(sample_epoch(), config), config.batch_size)
        for batch_index, batch in enumerate(batches):
            done = (epoch + batch_index / len(batches)) / config.epochs
            set_learning_rate(optimizer, config, done)
            _training_step(model, batch, optimizer)
            stage = f"epoch {epoch + 1} of {config.epochs}, batches"
            progress(stage, batch_index + 1, len(batches))
    return model.eval()


def _epoch_examples(
    labelled_cases: list[LabelledCase], config: TrainingConfig
) -> list[WindowTargets]:
    examples = []
    for case, key in labelled_cases:
        examples += _window_targets(augment(case, config), key)
    return examples


def average_weights(models: list[Any]) -> Any:
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
        case = random.choice(_question_variants(case))
    return case.model_copy(update={"sentences": sentences})


def _question_variants(case: Case) -> tuple[Case, ...]:
    """Return the case as it is, with the clinician's question alone, and with the patient's."""
    clinician = case.model_copy(update={"patient_narrative": "", "patient_question": ()})
    patient = case.model_copy(update={"clinician_question": ""})
    return (case, clinician, patient)


def logits(model: Any, case: Case) -> NDArray[np.float64]:
    """As `CrossEncoder.logits`, by the torch module."""
    total = np.zeros(len(case.sentences))
    windows = np.zeros(len(case.sentences))
    for window in build_windows(case):
        indices = [span.sentence_index for span in window.spans]
        with import_torch().no_grad():
            window_logits = model(**_tensors(window))[0]
        total[indices] += window_logits.numpy()
        windows[indices] += 1
    return total / np.maximum(windows, 1)


def export(model: Any, path: Path, example: Case, shared_weights: Path | None = None) -> None:
    """Write the module as integer ONNX to `path`, with its packed weights next to it.

    Weights that the file `shared_weights` has are not written again.
    """
    from archqa.engine.training import export as onnx_export

    onnx_export.export(model, path, _tensors(build_windows(example)[0]), shared_weights)


def _reorder_blocks(case: Case) -> tuple[Sentence, ...]:
    """Shuffle the blocks of each paragraph; the first block, often a heading, stays first."""
    paragraphs: dict[str, dict[int, list[Sentence]]] = {}
    for sentence, position in zip(case.sentences, sentence_positions(case), strict=True):
        blocks = paragraphs.setdefault(sentence.paragraph_id, {})
        blocks.setdefault(position.block, []).append(sentence)
    reordered: list[Sentence] = []
    for blocks in paragraphs.values():
        opening, *rest = blocks.values()
        random.shuffle(rest)
        for block in (opening, *rest):
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


def window_losses(model: Any, labelled_cases: list[LabelledCase]) -> Iterator[Callable[[], Any]]:
    """Yield, for each window of the cases, a function that computes its loss."""
    for case, key in labelled_cases:
        for example in _window_targets(case, key):
            yield partial(_loss, model, [example])


def _training_step(model: Any, batch: list[WindowTargets], optimizer: Any) -> None:
    model.train()
    optimizer.zero_grad()
    _loss(model, batch).backward()
    import_torch().nn.utils.clip_grad_norm_(model.parameters(), MAX_GRADIENT_NORM)
    optimizer.step()


def _loss(model: Any, batch: list[WindowTargets]) -> Any:
    """Return the cross-entropy, the mean over the sentences of a batch."""
    torch = import_torch()
    batch_logits = logits_of_windows(model, [example.window for example in batch])
    cross_entropy = torch.nn.functional.binary_cross_entropy_with_logits
    total_loss = 0
    sentences = 0
    for row, example in enumerate(batch):
        targets = torch.tensor(example.targets)
        window_logits = batch_logits[row, : len(targets)]
        total_loss += cross_entropy(window_logits, targets, reduction="sum")
        sentences += len(targets)
    return total_loss / sentences


def logits_of_windows(model: Any, windows: list[TokenWindow]) -> Any:
    """Return logits (windows, sentences) on the CPU, computed where the model is."""
    torch = import_torch()
    device = next(model.parameters()).device
    inputs = {name: tensor.to(device) for name, tensor in collate(windows).items()}
    is_fast = device.type != "cpu" or has_fast_bfloat16()
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=is_fast):
        return model(**inputs).float().cpu()


def has_fast_bfloat16() -> bool:
    """Whether the processor multiplies bfloat16 (AMX, AVX-512); elsewhere it would be slower."""
    supported: bool = import_torch().ops.mkldnn._is_mkldnn_bf16_supported()
    return supported


def new_optimizer(
    model: Any, config: TrainingConfig, head_rate_factor: float = HEAD_RATE_FACTOR
) -> Any:
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
    return import_torch().optim.AdamW(groups, lr=config.learning_rate, weight_decay=WEIGHT_DECAY)


def set_learning_rate(optimizer: Any, config: TrainingConfig, done: float) -> None:
    """Set the rates for the fraction of training that is done."""
    rising = (done + 1e-3) / config.warmup_fraction
    falling = (1 - done) / (1 - config.warmup_fraction)
    for group in optimizer.param_groups:
        group["lr"] = group["max_rate"] * min(rising, falling)


def _tensors(window: TokenWindow) -> dict[str, Any]:
    tensors = {}
    for name, array in network_inputs(window).items():
        tensors[name] = import_torch().from_numpy(array)
    return tensors


def collate(windows: list[TokenWindow]) -> dict[str, Any]:
    """Return the inputs of several windows, padded with 0; the mask follows from the padding."""
    inputs = [network_inputs(window) for window in windows]
    tensors = {}
    for name in inputs[0]:
        padded = _pad([window_inputs[name] for window_inputs in inputs])
        tensors[name] = import_torch().from_numpy(padded)
    return tensors


def _pad(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    """Join arrays of shape (1, ...) along the first dimension, the rest padded to the largest."""
    shape = np.max([array.shape for array in arrays], axis=0)
    padded = np.zeros((len(arrays), *shape[1:]), dtype=arrays[0].dtype)
    for row, array in enumerate(arrays):
        used = tuple(slice(size) for size in array.shape[1:])
        padded[row][used] = array[0]
    return padded


def import_torch() -> Any:
    """Return the module, which is imported only to train."""
    import torch

    return torch
