"""The reader: MPNet fine-tuned to read question and note together and mark each sentence that the answer needs.

Shipped as integer ONNX (`data/reader.onnx`, its weights in `data/reader.npz`), built by `reader_build.py`;
`reader_network.py` is what it computes. Unlike the encoder, which sees one sentence at a time, it sees what a
sentence's neighbours say.
"""

import hashlib
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Case
from archqa.engine.onnx_sessions import open_session, submit_to_pool
from archqa.engine.tables import FOLDER
from archqa.engine.windows import TokenWindow, build_windows

CROSS_ENCODER_FILE = FOLDER / "reader.onnx"


class CrossEncoder:
    """Log-odds that a sentence is essential, before calibration."""

    def __init__(self, model: Path = CROSS_ENCODER_FILE) -> None:
        self._session = open_session(model)

    def logits(self, case: Case) -> NDArray[np.float64]:
        """Of shape (sentences,): the mean over the windows that share a sentence."""
        return self.start(case)()

    def start(self, case: Case) -> Callable[[], NDArray[np.float64]]:
        """Begins to read; call what is returned for the `logits`."""
        reading = [(window, submit_to_pool(self._read, window)) for window in build_windows(case)]
        return lambda: _merged(reading, len(case.sentences))

    def _read(self, window: TokenWindow) -> NDArray[np.float64]:
        feed = network_inputs(window)
        out: NDArray[np.float64] = self._session.run(None, feed)[0][0].astype(np.float64)
        return out


def _merged(
    reading: list[tuple[TokenWindow, Future[NDArray[np.float64]]]], sentences: int
) -> NDArray[np.float64]:
    """The mean verdict on each sentence over the windows that hold it."""
    total, seen = np.zeros(sentences), np.zeros(sentences)
    for window, verdicts in reading:
        places = [span.sentence for span in window.spans]
        total[places] += verdicts.result()
        seen[places] += 1
    return total / np.maximum(seen, 1)


@cache
def default_cross_encoder() -> CrossEncoder:
    """The shipped reader, loaded once."""
    return CrossEncoder()


def default_cross_encoder_sha256() -> str:
    """Of both of the shipped reader's files, one after the other."""
    both = CROSS_ENCODER_FILE.read_bytes() + CROSS_ENCODER_FILE.with_suffix(".npz").read_bytes()
    return hashlib.sha256(both).hexdigest()


def network_inputs(window: TokenWindow) -> dict[str, NDArray[np.generic]]:
    """What the network takes of one window: pieces, their kind (0 question, 1 note), each sentence's mark and mean."""
    length, count = len(window.pieces), len(window.spans)
    kinds = np.zeros((1, length), dtype=np.int64)
    kinds[0, window.question :] = 1
    mean = np.zeros((1, count, length), dtype=np.float32)
    for row, span in enumerate(window.spans):
        mean[0, row, span.start : span.end] = 1 / (span.end - span.start)
    marks = np.array([[span.start for span in window.spans]], dtype=np.int64)
    return {
        "pieces": np.array([window.pieces], dtype=np.int64),
        "kinds": kinds,
        "marks": marks,
        "mean": mean,
    }
