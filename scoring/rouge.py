"""ROUGE (Lin 2004) by Google's `rouge_score`, as the official scripts call it.

No stemmer, F-measure, the mean over cases. Lsum is the summary-level form, which splits texts at
line breaks.

The library's table of common subsequences has a cell for every pair of a word of the reference and
a word of the prediction. Words that the other text lacks match nothing, so L and Lsum are given
shorter texts, and the words left out are counted again in precision and recall. The numbers are the
same, and 100 cases take a fifth of the time. (Which of several subsequences Lsum unites depends on
where the prediction's unmatched words are: there a run of them becomes one mark.)

The library imports nltk, which imports scipy, scikit-learn and pandas where they are installed: 2.3
of 3.5 s for scoring 100 cases, for a splitter of sentences and a stemmer that no official number
uses. Hence `module_deferring`.
"""

import builtins
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from itertools import chain
from types import ModuleType, SimpleNamespace
from typing import Any, Literal

from .texts import TextMetric, TextSample

Variant = Literal["1", "2", "L", "Lsum"]

_UNMATCHED = "-"
"""Marks words that the reference lacks; itself no word, since words are letters and digits."""

_UNUSED_BY_US = ("nltk", "absl.logging", "rouge_score.tokenizers")
"""What the library imports for stemming, splitting into sentences and logging of its defaults."""


@dataclass(frozen=True, kw_only=True)
class Rouge(TextMetric):
    """F-measure in percent of unigrams (1), bigrams (2), or the longest subsequence (L, Lsum)."""

    name = "rouge"
    variant: Variant = "Lsum"

    def score(self, case: TextSample) -> float:
        """ROUGE of one prediction in percent."""
        from rouge_score.scoring import fmeasure

        scorer = _scorer(self.variant)
        name = f"rouge{self.variant}"
        if self.variant in ("1", "2"):
            expected_text = " ".join(rouge_tokens(case.reference))
            predicted_text = " ".join(rouge_tokens(case.prediction))
            return 100 * float(
                scorer.score(expected_text, predicted_text)[name].fmeasure
            )
        predicted = _lines_of_tokens(case.prediction)
        expected = _lines_of_tokens(case.reference)
        predicted_words = set(chain.from_iterable(predicted))
        in_both = predicted_words.intersection(chain.from_iterable(expected))
        reference = _joined_matches(expected, in_both)
        prediction = _joined_matches(
            predicted, in_both, mark_gaps=self.variant == "Lsum"
        )
        precision_of_matches = float(
            scorer.score(reference, prediction)[name].precision
        )
        matches = round(precision_of_matches * len(prediction.split()))
        if not matches:
            return 0.0
        precision = matches / sum(map(len, predicted))
        recall = matches / sum(map(len, expected))
        return 100 * float(fmeasure(precision, recall))


def rouge_tokens(text: str) -> tuple[str, ...]:
    """Lower-case runs of ASCII letters and digits, as `rouge_score` counts them."""
    lines = _lines_of_tokens(text)
    return tuple(chain.from_iterable(lines))


@lru_cache(maxsize=8192)
def _lines_of_tokens(text: str) -> list[tuple[str, ...]]:
    """The tokens of each line, cached since every variant reads them."""
    from rouge_score.tokenize import tokenize

    return [tuple(tokenize(line, stemmer=None)) for line in text.split("\n")]


def _joined_matches(
    lines: Sequence[Sequence[str]],
    in_both: Collection[str],
    *,
    mark_gaps: bool = False,
) -> str:
    """The words that both texts have; with `mark_gaps` one mark stands for each run of others."""
    shortened = []
    for line in lines:
        words: list[str] = []
        for word in line:
            if word in in_both:
                words.append(word)
            elif mark_gaps and words[-1:] != [_UNMATCHED]:
                words.append(_UNMATCHED)
        shortened.append(" ".join(words))
    return "\n".join(shortened)


@cache
def _scorer(variant: Variant) -> Any:
    """Precision, recall and F-measure by the library, of texts that are tokenised already."""
    library = module_deferring("rouge_score.rouge_scorer", _UNUSED_BY_US)
    tokenizer = SimpleNamespace(tokenize=str.split)
    return library.RougeScorer([f"rouge{variant}"], tokenizer=tokenizer)


def module_deferring(name: str, deferred: Collection[str]) -> ModuleType:
    """A copy of a module that imports the `deferred` ones only once it reads an attribute of them.

    It runs the module's own code. Only that code sees another `import`, by the `__builtins__` of
    its namespace: `sys.modules` and the import machinery, which other threads use, stay untouched.
    Raises ModuleNotFoundError.
    """
    spec = find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    def import_or_defer(
        name: str,
        globals: Mapping[str, object] | None = None,  # noqa: A002 (named as in __import__)
        locals: Mapping[str, object] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        if name in deferred and not fromlist:
            return _ImportedOnUse(name)
        submodules = {}
        for attribute in fromlist or ():
            submodule = f"{name}.{attribute}"
            if submodule in deferred:
                submodules[attribute] = _ImportedOnUse(submodule)
        if submodules and submodules.keys() == set(fromlist or ()):
            return SimpleNamespace(**submodules)
        return __import__(name, globals, locals, fromlist or (), level)

    module = module_from_spec(spec)
    vars(module)["__builtins__"] = {**vars(builtins), "__import__": import_or_defer}
    spec.loader.exec_module(module)
    return module


class _ImportedOnUse(ModuleType):
    """Stands for a module until an attribute of it is read."""

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self.__name__), attribute)
