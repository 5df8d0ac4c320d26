"""The cross-encoder: MPNet fine-tuned to read question and note together.

It gives every sentence a logit that the answer needs it. Unlike the sentence encoder, which reads
one sentence at a time, it reads a sentence in its context. It ships as integer ONNX
(`data/reader.onnx`, weights in `data/reader.npz`), made by the top-level package `training`.
"""

from collections.abc import Callable
from concurrent.futures import Future
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Case
from archqa.engine import DATA_DIR
from archqa.engine.onnx_sessions import open_session, submit_to_pool
from archqa.engine.windows import TokenWindow, build_windows

CROSS_ENCODER_FILE = DATA_DIR / "reader.onnx"

Logits = NDArray[np.float64]


class CrossEncoder:
    """Computes log-odds that a sentence is essential, before calibration."""

    def __init__(self, model: Path = CROSS_ENCODER_FILE) -> None:
        self._session = open_session(model)

    def logits(self, case: Case) -> Logits:
        """Return logits of shape (sentences,): the mean over the windows that have the sentence."""
        return self.start_logits(case)()

    def start_logits(self, case: Case) -> Callable[[], Logits]:
        """Start the computation; the returned function waits for the logits."""
        return self.start_window_logits(build_windows(case), len(case.sentences))

    def start_window_logits(
        self, windows: list[TokenWindow], sentences: int
    ) -> Callable[[], Logits]:
        """As `start_logits`, of windows whose spans count `sentences` sentences or pieces of them."""
        pending = []
        for window in windows:
            window_logits = submit_to_pool(self._window_logits, window)
            pending.append((window, window_logits))
        return lambda: _mean_over_windows(pending, sentences)

    def _window_logits(self, window: TokenWindow) -> Logits:
        outputs = self._session.run(None, network_inputs(window))
        logits: Logits = outputs[0][0].astype(np.float64)
        return logits


def _mean_over_windows(pending: list[tuple[TokenWindow, Future[Logits]]], sentences: int) -> Logits:
    total = np.zeros(sentences)
    windows = np.zeros(sentences)
    for window, logits in pending:
        indices = [span.sentence_index for span in window.spans]
        total[indices] += logits.result()
        windows[indices] += 1
    return total / np.maximum(windows, 1)


@cache
def default_cross_encoder() -> CrossEncoder:
    """Return the shipped cross-encoder, loaded once."""
    return CrossEncoder()


def network_inputs(window: TokenWindow) -> dict[str, NDArray[np.generic]]:
    """Return the network's inputs for one window, each with a batch dimension of 1.

    `pieces`: token ids; `kinds`: 0 for question tokens and 1 for note tokens; `marks`: the markers'
    positions; `mean`: weights that average the tokens of each sentence.
    """
    length = len(window.token_ids)
    kinds = np.zeros((1, length), dtype=np.int64)
    kinds[0, window.question_length :] = 1
    mean = np.zeros((1, len(window.spans), length), dtype=np.float32)
    marker_positions = []
    for row, span in enumerate(window.spans):
        tokens = span.end - span.start
        mean[0, row, span.start : span.end] = 1 / tokens
        marker_positions.append(span.start)
    return {
        "pieces": np.array([window.token_ids], dtype=np.int64),
        "kinds": kinds,
        "marks": np.array([marker_positions], dtype=np.int64),
        "mean": mean,
    }
