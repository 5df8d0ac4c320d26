"""AlignScore: does an answer follow from its context, by a fine-tuned RoBERTa?

Zha et al. 2023, evaluation mode `nli_sp`, checkpoint `AlignScore-base.ckpt`, as the organisers use
it (yuh-zha/AlignScore at a0936d5). The inference code is our own: the context is cut into chunks of
whole sentences, every chunk is paired with every sentence of the answer, and a three-way head gives
the probability of "aligned". A sentence scores its best chunk; an answer the mean of its sentences.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from .errors import ScoringError, list_ids
from .metric import FloatArray
from .texts import (
    TextMetric,
    TextSample,
    find_local_model,
    has_nltk_data,
    missing_packages,
)

CHUNK_WORDS = 350


@dataclass(frozen=True, kw_only=True)
class AlignScore(TextMetric):
    """Mean probability in percent that a sentence of the answer is aligned with its context.

    `checkpoint` is the published Lightning file, `encoder` the folder or cached name of the
    matching roberta-base, of which only the tokenizer and the configuration are read.
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
        """None when packages, checkpoint, encoder and NLTK's sentence splitter are installed."""
        missing = missing_packages("torch", "transformers", "nltk")
        if missing:
            command = (
                "pip install 'archqa[alignscore]' (a CPU build of torch is enough)"
            )
            return f"needs {', '.join(missing)}: {command}."
        if not Path(self.checkpoint).is_file():
            source = "(Hugging Face hub, yuh-zha/AlignScore)"
            return f"needs AlignScore-base.ckpt {source}: give its path as alignscore_path."
        if self.folder is None:
            files = f"the tokenizer and configuration of {self.encoder}"
            return f"needs {files} in the local Hugging Face cache or a folder."
        resource = "tokenizers/punkt_tab/english"
        if not has_nltk_data(resource):
            return f"needs NLTK's {resource}: python -m nltk.downloader punkt_tab."
        return None

    def score(self, case: TextSample) -> float:
        """AlignScore of one prediction in percent."""
        from nltk.tokenize import sent_tokenize

        claims = sent_tokenize(case.prediction)
        context_sentences = sent_tokenize(case.reference)
        word_count = len(case.reference.split())
        contexts = chunk_sentences(context_sentences, words=word_count)
        pairs = list(product(contexts, claims))
        aligner = _aligner(self.checkpoint, str(self.folder))
        probabilities = aligner.aligned(pairs, self.batch)
        return 100 * mean_of_best(probabilities, len(claims))


def chunk_sentences(sentences: Sequence[str], words: int) -> Iterator[str]:
    """Chunks of equally many sentences, about one chunk per 350 of the context's `words`."""
    chunk_count = words // CHUNK_WORDS + 1
    size = max(len(sentences) // chunk_count, 1)
    # A context without sentences is one empty chunk.
    end = max(len(sentences), 1)
    for start in range(0, end, size):
        yield " ".join(sentences[start : start + size])


def mean_of_best(probabilities: FloatArray, claims: int) -> float:
    """The mean over claims of the best context's probability.

    probabilities: shape (contexts * claims,), all claims of the first context first.
    """
    by_context = probabilities.reshape(-1, claims)
    return float(by_context.max(axis=0).mean())


class Aligner:
    """A RoBERTa encoder with AlignScore's head: aligned, contradicted, neutral."""

    def __init__(self, weights: Mapping[str, Any], folder: str) -> None:
        """Load the weights, named as in the Lightning checkpoint.

        Raises ScoringError when they do not fit the encoder's configuration in `folder`.
        """
        import torch
        import transformers

        self.tokenizer = transformers.AutoTokenizer.from_pretrained(
            folder, local_files_only=True
        )
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
        self.encoder = transformers.RobertaModel(config)
        self.head = torch.nn.Linear(config.hidden_size, 3)
        encoder_weights = _with_prefix("base_model.", weights)
        head_weights = _with_prefix("tri_layer.", weights)
        try:
            # Not strict: the file has the position_ids buffer, which transformers removed since.
            result = self.encoder.load_state_dict(encoder_weights, strict=False)
            self.head.load_state_dict(head_weights)
        except RuntimeError as error:
            raise ScoringError(
                f"the AlignScore checkpoint does not fit the encoder in {folder}: {error}"
            ) from error
        self.encoder.train(False)
        if result.missing_keys:
            names = list_ids(result.missing_keys)
            raise ScoringError(
                f"the AlignScore checkpoint lacks {names}; use AlignScore-base.ckpt."
            )

    def aligned(self, pairs: Sequence[tuple[str, str]], batch: int) -> FloatArray:
        """The probability (0 to 1) that each (context, claim) is aligned, shape (pairs,)."""
        import torch

        batches = []
        with torch.inference_mode():
            for start in range(0, len(pairs), batch):
                batch_pairs = pairs[start : start + batch]
                contexts, claims = zip(*batch_pairs, strict=True)
                claim_tokens = self.tokenizer(list(claims), add_special_tokens=False)[
                    "input_ids"
                ]
                longest_claim = max(map(len, claim_tokens))
                # Only the context is cut, unless a claim leaves no space for it.
                truncation = "only_first" if longest_claim < 500 else "longest_first"
                inputs = self.tokenizer(
                    list(contexts),
                    list(claims),
                    truncation=truncation,
                    max_length=512,
                    padding=True,
                    return_tensors="pt",
                )
                pooled = self.encoder(**inputs).pooler_output
                batches.append(self.head(pooled))
        logits = torch.cat(batches).double()
        aligned = logits.softmax(dim=-1)[:, 0]
        return np.asarray(aligned.numpy(), dtype=np.float64)


@lru_cache(maxsize=1)
def _aligner(checkpoint: str, folder: str) -> Aligner:
    import torch

    try:
        content = torch.load(checkpoint, map_location="cpu", weights_only=True)
        state = content["state_dict"]
    except Exception as error:
        raise ScoringError(
            f"{checkpoint} is not a Lightning checkpoint that can be read safely: {error}"
        ) from error
    return Aligner(state, folder)


def _with_prefix(prefix: str, weights: Mapping[str, Any]) -> dict[str, Any]:
    """The weights whose names begin with `prefix`, without the prefix."""
    matching = {}
    for name, tensor in weights.items():
        if name.startswith(prefix):
            matching[name.removeprefix(prefix)] = tensor
    return matching
