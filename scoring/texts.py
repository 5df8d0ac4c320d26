"""What the text metrics share: their input, their mean over the cases, 13a tokens, and the check
whether the packages, models and data of a metric are on this machine.

The check imports nothing heavy and uses no network.
"""

import importlib.util
import os
from abc import abstractmethod
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from .metric import RatioMetric, Tally


class TextSample(NamedTuple):
    """An answer, its reference, and its source (the question, for SARI and question overlap)."""

    prediction: str
    reference: str
    source: str = ""


ReferenceKind = Literal[
    "question+essential", "essential", "clinician_question", "clinician_answer"
]


@dataclass(frozen=True, kw_only=True)
class TextMetric(RatioMetric[TextSample]):
    """The mean over cases of a score of texts, on a scale from 0 to 100.

    `against` names the reference that the task must provide, `order` the order of the essential
    sentences in it (`note`, or `hash:SEED` as published; `-` where there is no choice). An empty
    prediction gets the metric's `floor` and is not scored.
    """

    floor: ClassVar[float] = 0.0
    against: ReferenceKind = "question+essential"
    order: str = "note"

    @abstractmethod
    def score(self, case: TextSample) -> float:
        """The score of one case with a prediction, on the leaderboard's scale."""

    def tally(self, case: TextSample) -> Tally:
        """(score of the case, 1)."""
        if not case.prediction.strip():
            return self.floor, 1.0
        return self.score(case), 1.0


def tokenize_13a(text: str) -> tuple[str, ...]:
    """The `13a` tokens of machine translation (NIST mteval-v13a.pl), by sacrebleu.

    Punctuation is split off, except in 1,000 or well-known. The rules look at a sign and its
    neighbour, and no sign of a rule but the space itself is a space: what stands between two
    spaces has the same tokens alone, and is split once for all texts.
    """
    tokens: list[str] = []
    for piece in text.split(" "):
        tokens.extend(_tokens_between_spaces(piece))
    return tuple(tokens)


@lru_cache(maxsize=65536)
def _tokens_between_spaces(text: str) -> tuple[str, ...]:
    tokenize = _tokenizer_13a()
    return tuple(str(tokenize(text)).split())


@cache
def _tokenizer_13a() -> Any:
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    tokenizer: Any = Tokenizer13a  # sacrebleu has no annotations here.
    return tokenizer()


def missing_packages(*packages: str) -> list[str]:
    """The packages that cannot be imported."""
    return [
        package for package in packages if importlib.util.find_spec(package) is None
    ]


def has_nltk_data(resource: str) -> bool:
    """Whether a resource of NLTK (`corpora/stopwords`, …) is installed."""
    import nltk

    try:
        nltk.data.find(resource)
    except LookupError:
        return False
    return True


def find_local_model(*names: str) -> Path | None:
    """The folder of a model, or None.

    A name is a folder or a model in the Hugging Face cache, whose newest snapshot is used.
    """
    default_home = Path.home() / ".cache" / "huggingface"
    home = Path(os.environ.get("HF_HOME", default_home))
    hub_cache = Path(os.environ.get("HF_HUB_CACHE", home / "hub"))
    for name in names:
        if Path(name).is_dir():
            return Path(name)
        cached_name = name.replace("/", "--")
        snapshots = hub_cache / f"models--{cached_name}" / "snapshots"
        complete = [config.parent for config in snapshots.glob("*/config.json")]
        if complete:
            return max(complete, key=lambda folder: folder.stat().st_mtime)
    return None
