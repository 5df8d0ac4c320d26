"""Makes the question tagger's files: trains its heads, calibrates and measures them out of fold."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from archqa.engine.logistic_regression import fit, logit
from archqa.engine.question_tagger import (
    SETTINGS_FILE,
    TaggerSettings,
    calibrated,
    write_heads,
)
from archqa.engine.training.tagger_training import (
    PartsOf,
    Scored,
    TaggerExample,
    encode_texts,
    score,
    score_out_of_fold,
    train_heads,
)
from archqa.safety.private_files import write_private_text

MIN_CONFIDENCE = 0.85
"""Chosen on questions held out by frame (README.md)."""
THRESHOLDS = (0.8, 0.85, 0.9, 0.95)
RIDGE = 1.0
"""Towards no calibration at all: there are few questions to fit it on."""
BINS = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 1.01)


class Counts(NamedTuple):
    """Of questions that the grammar does not read: answered right and wrong, by whether they can be."""

    readable: int
    right: int
    wrong: int
    to_refuse: int
    refused_answered: int

    def __str__(self) -> str:
        return (
            f"of {self.readable} readable questions {self.right} right, {self.wrong} wrong; "
            f"of {self.to_refuse} to refuse {self.refused_answered} answered"
        )


def write_encoder() -> None:
    """Write the encoder's graph."""
    from archqa.engine.training.question_encoder import export_question_encoder

    export_question_encoder()


def build_tagger(
    examples: Sequence[TaggerExample], frames: Sequence[str], parts_of: PartsOf
) -> str:
    """Train, calibrate and write the files; return the measured figures as text."""
    vectors = encode_texts([each.text for each in examples])
    scored = score_out_of_fold(examples, vectors, frames, parts_of)
    settings = calibrate(scored)
    write_heads(train_heads(examples, vectors, frames, parts_of))
    write_private_text(SETTINGS_FILE, settings.model_dump_json(indent=1) + "\n")
    return _report(examples, scored, settings)


def measure_on(
    others: Sequence[TaggerExample],
    unseen: Sequence[TaggerExample],
    frames: Sequence[str],
    parts_of: PartsOf,
) -> str:
    """Train on some examples and measure on others; nothing is written."""
    vectors = encode_texts([each.text for each in (*others, *unseen)])
    settings = calibrate(score_out_of_fold(others, vectors, frames, parts_of))
    heads = train_heads(others, vectors, frames, parts_of)
    return _report(unseen, score(unseen, vectors, heads), settings)


def calibrate(scored: Sequence[Scored]) -> TaggerSettings:
    """Fit slope and bias on examples scored out of fold."""
    unscaled = TaggerSettings(slope=1, bias=0, min_confidence=MIN_CONFIDENCE)
    log_odds = logit(np.clip([each.probability for each in scored], 1e-6, 1 - 1e-6))
    rows = np.stack([log_odds, np.ones(len(scored))], 1)
    right = np.array([float(each.is_right) for each in scored])
    prior, ridge = np.array([1.0, 0.0]), np.array([RIDGE, RIDGE])
    slope, bias = fit(rows, right, prior=prior, ridge=ridge).tolist()
    provenance = f"fitted on {len(scored)} questions scored out of fold"
    return unscaled.model_copy(update={"slope": slope, "bias": bias, "provenance": provenance})


def count(
    examples: Sequence[TaggerExample], scored: Sequence[Scored], settings: TaggerSettings
) -> Counts:
    """Count what would be answered."""
    left_over = [each for each in examples if each.is_left_over]
    answered = [
        each.example
        for each in scored
        if calibrated(each.probability, settings) >= settings.min_confidence
    ]
    readable = [each for each in answered if each.frame]
    right = sum(each.reduced == each.frame for each in readable)
    return Counts(
        readable=sum(bool(each.frame) for each in left_over),
        right=right,
        wrong=len(readable) - right,
        to_refuse=sum(not each.frame for each in left_over),
        refused_answered=len(answered) - len(readable),
    )


def _report(
    examples: Sequence[TaggerExample], scored: Sequence[Scored], settings: TaggerSettings
) -> str:
    lines = [f"without the network: {count(examples, scored, _accept_all(settings))}"]
    for threshold in THRESHOLDS:
        changed = settings.model_copy(update={"min_confidence": threshold})
        lines.append(f"from {threshold}: {count(examples, scored, changed)}")
    lines.append("reliability, predicted / right (questions):")
    lines += _reliability(scored, settings)
    return "\n".join(lines)


def _accept_all(settings: TaggerSettings) -> TaggerSettings:
    return settings.model_copy(update={"min_confidence": 0.0})


def _reliability(scored: Sequence[Scored], settings: TaggerSettings) -> list[str]:
    lines = []
    confidences = np.array([calibrated(each.probability, settings) for each in scored])
    right = np.array([each.is_right for each in scored])
    for low, high in pairwise(BINS):
        inside = (confidences >= low) & (confidences < high)
        if inside.any():
            predicted, observed = confidences[inside].mean(), right[inside].mean()
            lines.append(f"  {predicted:.2f} / {observed:.2f} ({inside.sum()})")
    return lines
