"""BERTScore with the organisers' settings.

The encoder is distilbert-base-uncased, layer 4, no idf, rescaled with the English baseline. Zhang
et al. 2020, by the library bert-score (0.3.12 officially). Another encoder can replace it where the
hub is out of reach; its scores are not comparable and never get the official name.
"""

import csv
import importlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from .errors import ScoringError
from .metric import FloatArray
from .texts import TextMetric, TextSample, find_local_model, missing_packages

OFFICIAL_MODEL = "distilbert-base-uncased"
# The Hugging Face hub moved the model to its makers' organisation.
_OFFICIAL_NAMES = (OFFICIAL_MODEL, f"distilbert/{OFFICIAL_MODEL}")
_OFFICIAL_SHAPE = {
    "model_type": "distilbert",
    "dim": 768,
    "n_layers": 6,
    "vocab_size": 30522,
}


@dataclass(frozen=True, kw_only=True)
class BertScore(TextMetric):
    """Rescaled F of matched contextual embeddings in percent; may be negative.

    `model` is a folder, or a name in the local Hugging Face cache; nothing is downloaded. An empty
    answer gets the rescaled value of an F of 0, about -151.
    """

    name = "bertscore"
    floor = 100 * (0 - 0.6014007) / (1 - 0.6014007)
    model: str = OFFICIAL_MODEL
    layer: int = 4

    @property
    def official(self) -> bool:
        """Whether the encoder is the organisers': by name, or a folder of that name and shape."""
        if self.model in _OFFICIAL_NAMES:
            return True
        # The folder's name may also have the form of the Hugging Face cache.
        folder = Path(self.model)
        names = set()
        for part in folder.parts:
            cached_name = part.removeprefix("models--")
            names.add(cached_name.replace("--", "/"))
        config = folder / "config.json"
        if names.isdisjoint(_OFFICIAL_NAMES) or not config.exists():
            return False
        shape = json.loads(config.read_text(encoding="utf-8"))
        return bool(_OFFICIAL_SHAPE.items() <= shape.items())

    @property
    def folder(self) -> Path | None:
        """Where the encoder's files are on this machine, or None."""
        if self.model in _OFFICIAL_NAMES:
            return find_local_model(*_OFFICIAL_NAMES)
        return find_local_model(self.model)

    def availability(self) -> str | None:
        """None when torch, bert-score and the encoder's files are here."""
        missing = missing_packages("torch", "transformers", "bert_score")
        if missing:
            command = "pip install 'archqa[bertscore]' (a CPU build of torch is enough)"
            return f"needs {', '.join(missing)}: {command}."
        if self.folder is None:
            remedy = "put its files in a folder of that name and give the path as bertscore_model"
            return f"needs {self.model}: {remedy}."
        return None

    def score(self, case: TextSample) -> float:
        """Rescaled F of one prediction in percent."""
        return float(self.tallies([case])[0, 0])

    def tallies(self, cases: Sequence[TextSample]) -> FloatArray:
        """Score all cases in one batch, as the official script does.

        Padding changes the last digits, and the fourth digit for answers of one word.
        """
        tallies = np.ones((len(cases), self.width))
        tallies[:, 0] = self.floor
        rows = []
        predictions = []
        references = []
        for row, case in enumerate(cases):
            if case.prediction.strip():
                rows.append(row)
                predictions.append(case.prediction)
                references.append(case.reference)
        if not rows:
            return tallies
        scorer = _scorer(str(self.folder), self.layer)
        _, _, f_scores = scorer.score(predictions, references)
        # In single precision, as bert-score itself rescales, so that the last digits agree.
        baseline = np.float32(_baseline(self.layer))
        rescaled = (f_scores.numpy() - baseline) / (1 - baseline)
        tallies[rows, 0] = 100 * rescaled.astype(np.float64)
        return tallies


@lru_cache(maxsize=2)
def _scorer(folder: str, layer: int) -> Any:
    import bert_score

    # A library must not print progress bars.
    importlib.import_module("transformers.utils.logging").disable_progress_bar()
    return bert_score.BERTScorer(
        model_type=folder,
        num_layers=layer,
        idf=False,
        lang="en",
        device="cpu",
    )


@lru_cache
def _baseline(layer: int) -> float:
    """F of random sentence pairs at this layer of the official encoder, from bert-score's table."""
    import bert_score

    table = (
        Path(bert_score.__file__).parent
        / "rescale_baseline"
        / "en"
        / f"{OFFICIAL_MODEL}.tsv"
    )
    with table.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["LAYER"] == str(layer):
                return float(row["F"])
    raise ScoringError(f"bert-score has no baseline for layer {layer}; choose 0 to 6.")
