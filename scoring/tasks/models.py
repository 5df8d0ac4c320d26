"""The three text metrics that need models or licences, with the settings of the text subtasks."""

from __future__ import annotations

from typing import Any

from ..alignscore import AlignScore
from ..bertscore import BertScore
from ..medcon import Medcon, installed_spacy_model
from ..metric import Metric


def model_metrics(
    text: dict[str, Any],
    quickumls: Any,
    alignscore: Any,
    encoder: Any,
) -> dict[str, Metric[Any]]:
    """The metrics alignscore, bertscore and medcon with the settings `text`.

    An encoder other than the official one adds `bertscore_standin`.
    """
    checkpoint = str(alignscore or "")
    index = str(quickumls or "")
    spacy_model = installed_spacy_model()
    metrics: dict[str, Metric[Any]] = {
        "alignscore": AlignScore(checkpoint=checkpoint, **text),
        "bertscore": BertScore(**text),
        "medcon": Medcon(index=index, spacy_model=spacy_model, **text),
    }
    if encoder:
        metric = BertScore(model=str(encoder), **text)
        name = "bertscore" if metric.official else "bertscore_standin"
        metrics[name] = metric
    return metrics
