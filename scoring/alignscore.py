"""AlignScore: how far each sentence of an answer follows from its context, by a fine-tuned RoBERTa.

Zha et al. 2023, evaluation mode `nli_sp`, checkpoint `AlignScore-base.ckpt`, as the organisers use it
(yuh-zha/AlignScore at a0936d5). Own inference code: the context is cut into chunks of whole sentences, every chunk is
paired with every sentence of the answer, a three-way head gives the probability of "aligned"; best chunk for each
sentence, mean over sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from .availability import find_local_model, missing_nltk_data, missing_packages
from .errors import ScoringError
from .metric import FloatArray
from .texts import TextMetric, TextSample

CHUNK_WORDS = 350


@dataclass(frozen=True, kw_only=True)
class AlignScore(TextMetric):
    """Mean probability in percent that a sentence of the answer is aligned with its context.

    `checkpoint` is the published Lightning file, `encoder` the folder or cached name of the matching roberta-base, of
    which only the tokenizer and the configuration are read.
    """

    name = "alignscore"
    checkpoint: str = ""
    encoder: str = "roberta-base"
    batch: int = 8

    @property
    def folder(self) -> Path | None:
        """Where the tokenizer and the configuration are on this machine, or None."""
        return find_local_model(self.encoder, f"FacebookAI/{self.encoder}")

    def availability(self) -> str | None:
        """None when torch, transformers, NLTK's sentence splitter, the encoder and the checkpoint are here."""
        if lacking := missing_packages("torch", "transformers", "nltk"):
            return f"needs {', '.join(lacking)}: pip install 'archqa[alignscore]' (a CPU build of torch is enough)."
        if not Path(self.checkpoint).is_file():
            return "needs AlignScore-base.ckpt (Hugging Face hub, yuh-zha/AlignScore): give its path as alignscore_path."
        if self.folder is None:
            return f"needs the tokenizer and configuration of {self.encoder} in the local Hugging Face cache or a folder."
        if place := missing_nltk_data("tokenizers/punkt_tab/english"):
            return f"needs NLTK's {place}: python -m nltk.downloader punkt_tab."
        return None

    def score(self, case: TextSample) -> float:
        """AlignScore of one prediction in percent."""
        from nltk.tokenize import sent_tokenize

        claims = sent_tokenize(case.prediction)
        contexts = list(
            chunk_sentences(sent_tokenize(case.reference), words=len(case.reference.split()))
        )
        aligner = _aligner(self.checkpoint, str(self.folder))
        return 100 * mean_of_best(
            aligner.aligned(list(product(contexts, claims)), self.batch), len(claims)
        )


def chunk_sentences(sentences: Sequence[str], words: int) -> Iterator[str]:
    """Sentences joined into runs of equally many, about one run for each 350 of the context's `words`."""
    pieces = words // CHUNK_WORDS + 1
    size = max(len(sentences) // pieces, 1)
    for start in range(0, max(len(sentences), 1), size):
        yield " ".join(sentences[start : start + size])


def mean_of_best(probabilities: FloatArray, claims: int) -> float:
    """Best context for each claim, mean over claims; probabilities of shape (contexts × claims), contexts outermost."""
    return float(probabilities.reshape(-1, claims).max(axis=0).mean())


class Aligner:
    """A RoBERTa encoder and AlignScore's three-way head (aligned, contradicted, neutral) on its pooled output."""

    def __init__(self, weights: Mapping[str, Any], folder: str) -> None:
        """Weights by the names of the Lightning checkpoint. Raises ScoringError when they do not fit the encoder."""
        import torch
        import transformers

        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
        self.encoder = transformers.RobertaModel(config)
        self.head = torch.nn.Linear(config.hidden_size, 3)
        try:
            # The position_ids buffer of older transformers is in the file and no longer in the model: not strict
            # there.
            lacking = self.encoder.load_state_dict(
                _under("base_model.", weights), strict=False
            ).missing_keys
            self.head.load_state_dict(_under("tri_layer.", weights))
        except RuntimeError as error:
            raise ScoringError(
                f"the AlignScore checkpoint does not fit the encoder in {folder}: {error}"
            ) from error
        self.encoder.train(False)
        if lacking:
            raise ScoringError(
                f"the AlignScore checkpoint lacks {', '.join(lacking[:5])}; use AlignScore-base.ckpt."
            )

    def aligned(self, pairs: Sequence[tuple[str, str]], batch: int) -> FloatArray:
        """The probability (0 to 1) that each (context, claim) is aligned, shape (pairs,)."""
        import torch

        parts = [pairs[start : start + batch] for start in range(0, len(pairs), batch)]
        with torch.inference_mode():
            logits = [
                self.head(self.encoder(**self._encoded(part)).pooler_output) for part in parts
            ]
        return np.asarray(
            torch.cat(logits).double().softmax(dim=-1)[:, 0].numpy(), dtype=np.float64
        )

    def _encoded(self, pairs: Sequence[tuple[str, str]]) -> Any:
        contexts, claims = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        limit: dict[str, Any] = {"max_length": 512, "padding": True, "return_tensors": "pt"}
        longest = max(
            len(ids) for ids in self.tokenizer(claims, add_special_tokens=False)["input_ids"]
        )
        # Only the context is cut, unless a claim leaves it no room.
        truncation = "only_first" if longest < 500 else "longest_first"
        return self.tokenizer(contexts, claims, truncation=truncation, **limit)


@lru_cache(maxsize=1)
def _aligner(checkpoint: str, folder: str) -> Aligner:
    import torch

    try:
        state = torch.load(checkpoint, map_location="cpu", weights_only=True)["state_dict"]
    except Exception as error:
        raise ScoringError(
            f"{checkpoint} is not a Lightning checkpoint that can be read safely: {error}"
        ) from error
    return Aligner(state, folder)


def _under(prefix: str, weights: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name.removeprefix(prefix): value
        for name, value in weights.items()
        if name.startswith(prefix)
    }
