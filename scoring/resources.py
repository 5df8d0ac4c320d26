"""FHIR resources that an agent retrieved or cited, compared with a question's gold resources.

FHIR-AgentBench (Lee et al., ML4H 2025; glee4810/FHIR-AgentBench at bbb4290) in two forms.
`official` is its evaluation code: predictions are first filtered to the resource types of the gold,
recall is all or nothing, and a resource listed twice counts twice. `strict` is the paper: sets, no
filter, and recall as a share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from .metric import FloatArray, Metric, PartOfF1, part_of_f1

ResourceIds = Mapping[str, Sequence[str]]


class Retrieval(NamedTuple):
    """Gold and predicted resources of one question, as type → ids.

    `predicted` is None if the question was not answered.
    """

    gold: ResourceIds
    predicted: ResourceIds | None


@dataclass(frozen=True, kw_only=True)
class ResourceMetric(Metric[Retrieval]):
    """Precision, recall or F1, 0 to 1.

    Precision and recall are means over the questions where they are defined; F1 is the harmonic
    mean of these means.
    """

    part: ClassVar[PartOfF1]
    form: Literal["official", "strict"] = "official"
    ids: Literal["retrieved", "cited"] = "retrieved"

    @property
    def width(self) -> int:
        """Precision and whether it is defined, recall and whether it is defined."""
        return 4

    def tally(self, case: Retrieval) -> tuple[float, ...]:
        """(precision or 0, 1 if defined, recall or 0, 1 if defined)."""
        if case.predicted is None:
            return 0.0, 1.0, 0.0, 1.0
        score = _official_scores if self.form == "official" else _strict_scores
        precision, recall = score(case.gold, case.predicted)
        return *_defined(precision), *_defined(recall)

    def value(self, total: FloatArray) -> FloatArray:
        """The score from summed tallies, 0 to 1."""
        return part_of_f1(total, self.part)


class ResourcePrecision(ResourceMetric):
    """The share of predicted resources that are in the gold."""

    name = "resource_precision"
    part = "precision"


class ResourceRecall(ResourceMetric):
    """Whether all the gold was retrieved (official), or the share that was (strict)."""

    name = "resource_recall"
    part = "recall"


class ResourceF1(ResourceMetric):
    """Harmonic mean of mean precision and mean recall."""

    name = "resource_f1"
    part = "f1"


def _defined(score: float | None) -> tuple[float, float]:
    """(score, 1), or (0, 0) where the benchmark leaves the question out of the mean."""
    if score is None:
        return 0.0, 0.0
    return score, 1.0


def _official_scores(
    gold: ResourceIds, predicted: ResourceIds
) -> tuple[float | None, float | None]:
    expected: set[str] = set()
    for ids in gold.values():
        expected.update(ids)
    retrieved: list[str] = []
    for resource_type, ids in predicted.items():
        if gold.get(resource_type):
            retrieved.extend(ids)
    hits = sum(resource_id in expected for resource_id in retrieved)
    complete = expected <= set(retrieved)
    return _precision_recall(len(expected), len(retrieved), hits, complete=complete)


def _strict_scores(gold: ResourceIds, predicted: ResourceIds) -> tuple[float | None, float | None]:
    expected = _references(gold)
    retrieved = _references(predicted)
    hits = expected & retrieved
    return _precision_recall(len(expected), len(retrieved), len(hits))


def _references(resources: ResourceIds) -> set[tuple[str, str]]:
    """The (type, id) pairs of the resources."""
    references = set()
    for resource_type, ids in resources.items():
        for resource_id in ids:
            references.add((resource_type, resource_id))
    return references


def _precision_recall(
    expected: int,
    retrieved: int,
    hits: int,
    complete: bool | None = None,
) -> tuple[float | None, float | None]:
    """Both scores of one question; None where the benchmark leaves the question out of the mean.

    With `complete`, recall is all or nothing.
    """
    if not expected:
        return (0.0, None) if retrieved else (1.0, 1.0)
    if not retrieved:
        return None, 0.0
    precision = hits / retrieved
    if complete is None:
        return precision, hits / expected
    return precision, float(complete)
