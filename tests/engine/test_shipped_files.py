import hashlib

from archqa.engine.encoders import CROSS_ENCODER_FILE
from archqa.engine.model import load


def test_the_cross_encoder_fits_30_megabytes_and_the_model_names_its_digest() -> None:
    graph = CROSS_ENCODER_FILE.read_bytes()
    weights = CROSS_ENCODER_FILE.with_suffix(".npz").read_bytes()
    assert len(graph) + len(weights) <= 30_000_000
    assert load().model.reader_sha256 == hashlib.sha256(graph + weights).hexdigest()
