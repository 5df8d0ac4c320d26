import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from archqa.evidence import reader_build, reader_training
from archqa.evidence.further import Asked, Further
from archqa.evidence.reader import Reader
from archqa.evidence.reader_training import Recipe
from archqa.evidence.training import silent
from archqa.evidence.windows import windows

from .conftest import case_of
from .test_training import labelled

pytestmark = pytest.mark.heavy
NEEDED = "Apixaban was stopped because of bleeding from the stomach."
IDLE = "She ate a regular diet and walked in the hall."


@pytest.fixture(scope="module")
def network() -> Any:
    pytest.importorskip("torch")
    return reader_training.untrained(Recipe()).eval()


def asking(*sentences: str) -> Any:
    changed = {
        "clinician_question": "Why was the anticoagulant stopped?",
        "patient_narrative": "",
        "patient_question": (),
    }
    return case_of(sentences).model_copy(update=changed)


def test_before_training_a_sentence_near_the_question_stands_first(network: Any) -> None:
    said = reader_training.logits(network, asking(IDLE, NEEDED, IDLE.replace("hall", "garden")))
    assert said.argmax() == 1


def test_a_window_says_the_same_beside_a_longer_one(network: Any) -> None:
    short, long = windows(asking(NEEDED, IDLE))[0], windows(asking(*[NEEDED, IDLE] * 4))[0]
    alone = network(**reader_training._batched([short]))[0].detach().numpy()
    beside = network(**reader_training._batched([long, short]))[1, :2].detach().numpy()
    assert np.abs(alone - beside).max() < 1e-4


def test_training_moves_the_head_and_leaves_the_still_layers(network: Any) -> None:
    before = copy.deepcopy(network.state_dict())
    recipe = Recipe(epochs=2, batch=1)
    trained = reader_training.read(copy.deepcopy(network), lambda: [labelled(50)], recipe, progress=silent).state_dict()
    moved = {name for name in before if not before[name].equal(trained[name])}
    assert {"likeness.weight", "seen.weight", "matters.weight", "encoder.encoder.layer.2.output.dense.weight"} <= moved
    assert not [name for name in moved if "embeddings" in name or ".layer.0." in name]


def test_each_example_is_in_one_batch_beside_others_of_its_length() -> None:
    examples = [(window, [0.0]) for size in (9, 1, 5, 1, 9, 5) for window in windows(asking(*[NEEDED] * size))]
    batches = reader_training._batches(list(examples), 2)
    assert sorted(len(window.pieces) for batch in batches for window, _ in batch) == sorted(
        len(window.pieces) for window, _ in examples
    )
    assert all(len({len(window.pieces) for window, _ in batch}) == 1 for batch in batches)


def test_the_reader_is_built_from_questions_and_exported_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("onnx")
    made: list[Any] = []
    read = reader_training.read
    monkeypatch.setattr(reader_training, "read", lambda *given, **more: made.append(read(*given, **more)) or made[-1])
    taught = Further((Asked("new/1", *labelled(98)),), (Asked("new/2", *labelled(99)),))
    reader_build.build(taught, Recipe(epochs=1), silent, into=tmp_path)
    case, _ = labelled(50)
    shipped, whole = Reader(tmp_path / "reader.onnx").logits(case), reader_training.logits(made[0], case)
    assert np.abs(shipped - whole).max() < 0.5  # int8 beside float
    assert (tmp_path / "reader.onnx").stat().st_size < 30e6
