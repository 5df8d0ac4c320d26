"""The three text metrics that need models or licences, as every text subtask uses them."""

from __future__ import annotations

from typing import Any

from ..alignscore import AlignScore
from ..bertscore import BertScore
from ..medcon import Medcon, installed_spacy_model
from ..metric import Metric


def model_metrics(
    text: dict[str, Any], quickumls: Any, alignscore: Any, encoder: Any
) -> dict[str, Metric[Any]]:
    """alignscore, bertscore and medcon with the settings `text`; another encoder adds `bertscore_standin`."""
    metrics: dict[str, Metric[Any]] = {
        "alignscore": AlignScore(checkpoint=str(alignscore or ""), **text),
        "bertscore": BertScore(**text),
        "medcon": Medcon(index=str(quickumls or ""), spacy_model=installed_spacy_model(), **text),
    }
    if encoder:
        asked = BertScore(model=str(encoder), **text)
        metrics["bertscore" if asked.official else "bertscore_standin"] = asked
    return metrics
