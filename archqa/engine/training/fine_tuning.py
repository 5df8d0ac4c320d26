"""Trains the reader: MPNet, fine-tuned on labelled cases. Needs the training extra.

Never imported at run time.
"""

import copy
import random
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Case
from archqa.core.judgement import Relevance
from archqa.core.key import CaseKey
from archqa.core.probability import LABEL_WEIGHT
from archqa.engine.cross_encoder import CROSS_ENCODER_FILE, network_inputs
from archqa.engine.training import base_weights
from archqa.engine.windows import TokenWindow, build_windows
from archqa.errors import MissingExtra
from archqa.notes.sections import sentence_positions

LabelledCase = tuple[Case, CaseKey]
ProgressCallback = Callable[[str, int, int], None]
EpochSampler = Callable[[], list[LabelledCase]]
"""What is read in one epoch; drawn anew for each."""
Example = tuple[TokenWindow, list[float]]
NEEDED = ("torch", "safetensors", "onnx")
SORTED = 32
"""Batches within which windows are sorted by length."""
"""Supplementary sentences count as a quarter essential: they are nearer to it than the rest is."""


class TrainingConfig(NamedTuple):
    """How the reader is trained. Chosen on cases that were new to it then, and on dev (README.md)."""

    epochs: int = 1
    rate: float = 5e-5
    batch: int = 4
    frozen_layers: int = 4
    """Lower layers that keep their weights: they take time, and hold what few cases cannot teach."""
    warmup_fraction: float = 0.08
    shuffle: float = 0.5
    forget: float = 0.3
    seed: int = 0


def new_network(weights: Path, recipe: TrainingConfig, **sizes: int) -> Any:
    """The network before it has read anything, a torch module; `weights` as in `base_weights.read`.

    Raises MissingExtra for whatever training and exporting will need.
    """
    _require()
    _torch().manual_seed(recipe.seed)
    from archqa.engine.training.network import CrossEncoderNetwork

    return CrossEncoderNetwork(
        base_weights.load_pretrained_weights(weights), recipe.frozen_layers, **sizes
    )


def load_default_network(recipe: TrainingConfig, graph: Path = CROSS_ENCODER_FILE) -> Any:
    """The reader's files as a torch module, to be taught further. Raises as `untrained`."""
    _require()
    from archqa.engine.training import weight_import

    return weight_import.load_network(graph, recipe.frozen_layers)


def _require() -> None:
    absent = [each for each in NEEDED if find_spec(each) is None]
    if absent:
        raise MissingExtra(f"What training the reader needs ({', '.join(absent)})", "train")


def train_quantisation_aware(
    model: Any, drawn: EpochSampler, recipe: TrainingConfig, *, progress: ProgressCallback
) -> Any:
    """As `read`, with the layers' weights rounded while it reads; what it returns has them unrounded."""
    from archqa.engine.training import quantisation_aware  # torch

    quantisation_aware.enable_fake_quantisation(model)
    train_network(model, drawn, recipe, progress=progress)
    quantisation_aware.disable_fake_quantisation(model)
    return model


def train_network(
    model: Any, drawn: EpochSampler, recipe: TrainingConfig, *, progress: ProgressCallback
) -> Any:
    """Trains the module on what is drawn for each epoch, the rate rising and falling once; returns it.

    The same draws and recipe give the same weights on the same machine.
    """
    _torch().manual_seed(recipe.seed)
    random.seed(recipe.seed)
    optimizer = _optimizer(model, recipe)
    for epoch in range(recipe.epochs):
        batches = _batches(
            [each for case, key in drawn() for each in _examples(varied(case, recipe), key)],
            recipe.batch,
        )
        for at, batch in enumerate(batches, start=1):
            _set_rate(optimizer, recipe, (epoch + (at - 1) / len(batches)) / recipe.epochs)
            _step(model, batch, optimizer)
            progress(f"epoch {epoch + 1} of {recipe.epochs}, batches", at, len(batches))
    return model.eval()


def average_weights(models: list[Any]) -> Any:
    """A module whose weights are the mean of those of several, all trained from the same start."""
    mean = copy.deepcopy(models[0])
    states = [model.state_dict() for model in models]
    mean.load_state_dict(
        {name: sum(state[name] for state in states) / len(states) for name in states[0]}
    )
    return mean


def _batches(examples: list[Example], size: int) -> list[list[Example]]:
    """In random order, yet windows of like length side by side: a fifth of the work would else be padding."""
    random.shuffle(examples)
    batches: list[list[Example]] = []
    for start in range(0, len(examples), SORTED * size):
        like = sorted(examples[start : start + SORTED * size], key=lambda each: len(each[0].pieces))
        batches += [like[at : at + size] for at in range(0, len(like), size)]
    random.shuffle(batches)
    return batches


def varied(case: Case, recipe: TrainingConfig) -> Case:
    """The case with its problems in another order, and at times asked by the clinician or by the patient alone."""
    changed: dict[str, Any] = {}
    if random.random() < recipe.shuffle:
        changed["sentences"] = _reordered(case)
    asked = random.choice(_askings(case)) if random.random() < recipe.forget else case
    return asked.model_copy(update=changed)


def _askings(case: Case) -> tuple[Case, ...]:
    """The case as it is, asked by the clinician alone, and asked by the patient alone."""
    clinician = case.model_copy(update={"patient_narrative": "", "patient_question": ()})
    return (case, clinician, case.model_copy(update={"clinician_question": ""}))


def logits(model: Any, case: Case) -> NDArray[np.float64]:
    """As `BlobReader.logits`, by the torch module."""
    torch = _torch()
    total, seen = np.zeros(len(case.sentences)), np.zeros(len(case.sentences))
    for window in build_windows(case):
        at = [span.sentence for span in window.spans]
        with torch.no_grad():
            total[at] += model(**_tensors(window))[0].numpy()
        seen[at] += 1
    return total / np.maximum(seen, 1)


def export(model: Any, path: Path, example: Case) -> None:
    """Writes the module as integer ONNX, `path`, and its packed weights beside it."""
    from archqa.engine.training import export

    export.export(model, path, _tensors(build_windows(example)[0]))


def _reordered(case: Case) -> tuple[Any, ...]:
    """Blocks in random order within their paragraph; the paragraph's first block, often its heading, stays first."""
    paragraphs: dict[str, dict[int, list[Any]]] = {}
    for sentence, place in zip(case.sentences, sentence_positions(case), strict=True):
        paragraphs.setdefault(sentence.paragraph_id, {}).setdefault(place.block, []).append(
            sentence
        )
    ordered: list[Any] = []
    for blocks in paragraphs.values():
        first, *rest = blocks.values()
        random.shuffle(rest)
        ordered += [sentence for block in (first, *rest) for sentence in block]
    return tuple(ordered)


def _examples(case: Case, key: CaseKey) -> list[Example]:
    target = [
        LABEL_WEIGHT[key.labels.get(sentence.id, Relevance.NOT_RELEVANT)]
        for sentence in case.sentences
    ]
    return [
        (window, [target[span.sentence] for span in window.spans]) for window in build_windows(case)
    ]


def window_losses(model: Any, pairs: list[LabelledCase]) -> Iterator[Callable[[], Any]]:
    """Of each window of the cases, a function that works its loss out."""
    return (
        partial(_loss, model, [example]) for case, key in pairs for example in _examples(case, key)
    )


def _step(model: Any, batch: list[Example], optimizer: Any) -> None:
    model.train()
    optimizer.zero_grad()
    _loss(model, batch).backward()
    _torch().nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def _loss(model: Any, batch: list[Example]) -> Any:
    """Cross-entropy, the mean over the sentences of a batch."""
    torch = _torch()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=_short_floats()):
        said = model(**_batched([window for window, _ in batch])).float()
    missed = torch.nn.functional.binary_cross_entropy_with_logits
    each = [
        missed(said[row, : len(target)], torch.tensor(target), reduction="sum")
        for row, (_, target) in enumerate(batch)
    ]
    return sum(each) / sum(len(target) for _, target in batch)


def _short_floats() -> bool:
    """Whether the processor multiplies bfloat16 itself (AMX, AVX-512), which is quicker; elsewhere it is slower."""
    supported: bool = _torch().ops.mkldnn._is_mkldnn_bf16_supported()
    return supported


def _optimizer(model: Any, recipe: TrainingConfig) -> Any:
    """The head, which begins with nothing, learns ten times as fast as the encoder."""
    body = [each for each in model.encoder.parameters() if each.requires_grad]
    head = [each for name, each in model.named_parameters() if not name.startswith("encoder.")]
    groups = [{"params": body, "most": recipe.rate}, {"params": head, "most": recipe.rate * 10}]
    return _torch().optim.AdamW(groups, lr=recipe.rate, weight_decay=0.01)


def _set_rate(optimizer: Any, recipe: TrainingConfig, done: float) -> None:
    share = min((done + 1e-3) / recipe.warmup_fraction, (1 - done) / (1 - recipe.warmup_fraction))
    for group in optimizer.param_groups:
        group["lr"] = group["most"] * share


def _tensors(window: TokenWindow) -> dict[str, Any]:
    torch = _torch()
    return {name: torch.from_numpy(value) for name, value in network_inputs(window).items()}


def _batched(batch: list[TokenWindow]) -> dict[str, Any]:
    """Windows side by side, padded; the network takes the mask from the padding (piece 0)."""
    torch = _torch()
    parts = [network_inputs(window) for window in batch]
    found = {}
    for name in parts[0]:
        shape = [max(sizes) for sizes in zip(*(part[name].shape for part in parts), strict=True)]
        block = np.zeros((len(parts), *shape[1:]), dtype=parts[0][name].dtype)
        for row, part in enumerate(parts):
            block[row][tuple(slice(size) for size in part[name].shape[1:])] = part[name][0]
        found[name] = torch.from_numpy(block)
    return found


def _torch() -> Any:
    import torch

    return torch
