from pathlib import Path
from typing import Any

import numpy as np
import pytest

from archqa.evidence import heldout, reader_build, reader_training
from archqa.evidence.further import Asked, Further
from archqa.evidence.reader import Reader
from archqa.evidence.reader_training import Recipe
from archqa.evidence.training import silent

from .test_training import labelled

pytestmark = pytest.mark.heavy


def test_the_reader_is_built_from_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("onnx")
    monkeypatch.setattr(reader_build, "FOLDS", 2)
    settled: list[Any] = []
    settle = reader_training.settle
    monkeypatch.setattr(
        reader_training, "settle", lambda *args, **ways: settled.append(settle(*args, **ways)) or settled[-1]
    )
    pairs = [labelled(50 + number) for number in range(4)]
    kinds = {"train": [(case.model_copy(update={"id": str(at)}), key) for at, (case, key) in enumerate(pairs)]}
    further = Further((Asked("train/1", *labelled(98)),), (Asked("new/1", *labelled(99)),))
    reader_build.build(kinds, further, Recipe(broad=1, epochs=1), silent, into=tmp_path)
    case = kinds["train"][0][0]
    assert len((tmp_path / heldout.NAME).read_text().splitlines()) == 1 + 4
    assert len(settled) == 2 + 1
    shipped, whole = Reader(tmp_path / "reader.onnx").logits(case), reader_training.logits(settled[-1], case)
    assert np.abs(shipped - whole).max() < 0.5  # int8 beside float
    assert (tmp_path / "reader.onnx").stat().st_size < 30e6
