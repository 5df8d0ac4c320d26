"""BERTScore with the organisers' settings: distilbert-base-uncased, layer 4, no idf, rescaled with the English
baseline.

Zhang et al. 2020, by the library bert-score (0.3.12 officially). Another encoder may stand in, so that the plumbing
can be tried without the hub; its numbers mean something else and never carry the official name.
"""

from __future__ import annotations

import csv
import importlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from .availability import find_local_model, missing_packages
from .metric import FloatArray
from .texts import TextMetric, TextSample

OFFICIAL_MODEL = "distilbert-base-uncased"
# The hub moved the model under its makers' name.
_OFFICIAL_NAMES = (OFFICIAL_MODEL, f"distilbert/{OFFICIAL_MODEL}")
_OFFICIAL_SHAPE = {"model_type": "distilbert", "dim": 768, "n_layers": 6, "vocab_size": 30522}


@dataclass(frozen=True, kw_only=True)
class BertScore(TextMetric):
    """Rescaled F of matched contextual embeddings in percent; may be negative.

    `model` is a folder, or a name in the local Hugging Face cache; nothing is downloaded. An empty answer gets what
    an F of 0 becomes by rescaling, about -151.
    """

    name = "bertscore"
    floor = 100 * (0 - 0.6014007) / (1 - 0.6014007)
    model: str = OFFICIAL_MODEL
    layer: int = 4

    @property
    def official(self) -> bool:
        """Whether the encoder is the organisers': by name, or a folder under that name with its shape."""
        if self.model in _OFFICIAL_NAMES:
            return True
        config = Path(self.model) / "config.json"
        names = {
            part.removeprefix("models--").replace("--", "/") for part in Path(self.model).parts
        }
        if names.isdisjoint(_OFFICIAL_NAMES) or not config.exists():
            return False
        shape = json.loads(config.read_text(encoding="utf-8"))
        return all(shape.get(name) == size for name, size in _OFFICIAL_SHAPE.items())

    @property
    def folder(self) -> Path | None:
        """Where the encoder's files are on this machine, or None."""
        return find_local_model(
            *(_OFFICIAL_NAMES if self.model in _OFFICIAL_NAMES else (self.model,))
        )

    def availability(self) -> str | None:
        """None when torch, bert-score and the encoder's files are here."""
        if lacking := missing_packages("torch", "transformers", "bert_score"):
            return f"needs {', '.join(lacking)}: pip install 'archqa[bertscore]' (a CPU build of torch is enough)."
        if self.folder is None:
            return f"needs {self.model}: put its files in a folder of that name and give the path as bertscore_model."
        return None

    def score(self, case: TextSample) -> float:
        """Rescaled F of one prediction in percent."""
        return float(self._scores([case])[0])

    def tallies(self, cases: Sequence[TextSample]) -> FloatArray:
        """All cases in one batch, as officially: padding moves the last digits, and for one-word answers the fourth."""
        tallies = np.array([[self.floor, 1.0]] * len(cases)).reshape(len(cases), 2)
        told = [place for place, case in enumerate(cases) if case.prediction.strip()]
        if told:
            tallies[told, 0] = self._scores([cases[place] for place in told])
        return tallies

    def _scores(self, cases: Sequence[TextSample]) -> FloatArray:
        scorer = _scorer(str(self.folder), self.layer)
        scores = scorer.score(
            [case.prediction for case in cases], [case.reference for case in cases]
        )[2]
        # In single precision, as bert-score itself rescales, so that the last digits agree.
        baseline = np.float32(_baseline(self.layer))
        return np.asarray(100 * ((scores.numpy() - baseline) / (1 - baseline)).astype(np.float64))


@lru_cache(maxsize=2)
def _scorer(folder: str, layer: int) -> Any:
    import bert_score

    # A library shows no progress bars.
    importlib.import_module("transformers.utils.logging").disable_progress_bar()
    return bert_score.BERTScorer(
        model_type=folder, num_layers=layer, idf=False, lang="en", device="cpu"
    )


@lru_cache
def _baseline(layer: int) -> float:
    """F of random sentence pairs at this layer of the official encoder, from the table that bert-score carries."""
    import bert_score

    table = Path(bert_score.__file__).parent / "rescale_baseline" / "en" / f"{OFFICIAL_MODEL}.tsv"
    with table.open(encoding="utf-8", newline="") as lines:
        return next(float(row["F"]) for row in csv.DictReader(lines) if row["LAYER"] == str(layer))
