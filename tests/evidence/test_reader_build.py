from pathlib import Path

import numpy as np
import pytest

from archqa.evidence import heldout, reader_build, reader_training
from archqa.evidence.further import Further
from archqa.evidence.reader import Reader
from archqa.evidence.reader_training import Recipe
from archqa.evidence.training import silent

from .test_training import labelled

pytestmark = pytest.mark.heavy


def test_the_reader_is_built_from_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("onnx")
    monkeypatch.setattr(reader_build, "FOLDS", 2)
    trained = []
    train = reader_training.train_reader
    monkeypatch.setattr(
        reader_training, "train_reader", lambda *args, **ways: trained.append(train(*args, **ways)) or trained[-1]
    )
    kinds = {"train": [labelled(50 + number) for number in range(4)]}
    further = [Further("train/1", *labelled(99))]
    reader_build.build(kinds, further, Recipe(epochs=1), silent, into=tmp_path)
    case = kinds["train"][0][0]
    assert len((tmp_path / heldout.NAME).read_text().splitlines()) == 1 + 4
    assert len(trained) == 2 + 1
    shipped, whole = Reader(tmp_path / "reader.onnx").logits(case), reader_training.logits(trained[-1], case)
    assert np.abs(shipped - whole).max() < 0.5  # int8 beside float
    assert (tmp_path / "reader.onnx").stat().st_size < 30e6
