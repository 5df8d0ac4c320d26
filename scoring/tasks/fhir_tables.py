"""FHIR-AgentBench scores broken down: by set of resource types (the official table), template, kind of answer, size
of the gold.

The table by precision (the paper's Figure 4) holds only questions whose gold was wholly retrieved: does noise hurt
the answer?
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..metric import Metric
from ..scores import Scores

Table = dict[str, dict[str, float]]
_SIZES = ((0, "0"), (1, "1"), (5, "2-5"), (20, "6-20"), (100, "21-100"))


def score_tables(
    facts: Mapping[str, Mapping[str, Any]], metrics: Mapping[str, Metric[Any]], scores: Scores
) -> dict[str, Table]:
    """Table name → group → score name → value, with `questions` in each group; facts: case id → table name → group."""
    places = {case_id: place for place, case_id in enumerate(scores.per_case)}
    grouped: dict[str, dict[str, list[int]]] = {}
    for case_id, groups in facts.items():
        for table, group in groups.items():
            label = _size(group) if isinstance(group, int) else group
            grouped.setdefault(table, {}).setdefault(label, []).append(places[case_id])
    if {"precision", "recall"} <= scores.scores.keys():
        grouped["by_precision"] = _by_precision(scores)
    return {
        table: {group: _row(members, metrics, scores) for group, members in sorted(groups.items())}
        for table, groups in grouped.items()
    }


def _row(
    members: list[int], metrics: Mapping[str, Metric[Any]], scores: Scores
) -> dict[str, float]:
    values = {
        name: float(metric.value(scores.tallies[name][members].sum(axis=0)))
        for name, metric in metrics.items()
        if name in scores.tallies
    }
    return {"questions": float(len(members)), **values}


def _by_precision(scores: Scores) -> dict[str, list[int]]:
    buckets: dict[str, list[int]] = {}
    for place, own in enumerate(scores.per_case.values()):
        if own["recall"] == 1:
            low = min(int(own["precision"] * 5), 4) / 5
            buckets.setdefault(f"{low:.1f}-{low + 0.2:.1f}", []).append(place)
    return buckets


def _size(ids: int) -> str:
    return next((label for most, label in _SIZES if ids <= most), "over 100")
