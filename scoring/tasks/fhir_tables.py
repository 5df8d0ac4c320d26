"""FHIR-AgentBench scores by resource types, template, kind of answer and number of gold resources.

The table by resource types is the official one. The table by precision (the paper's Figure 4) has
only questions whose gold was completely retrieved, to show whether noise hurts the answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from ..metric import Metric
from ..scores import Scores

Table = dict[str, dict[str, float]]
Members = dict[str, list[int]]
"""Group → the row indices of its questions in the tallies."""

_SIZES = ((0, "0"), (1, "1"), (5, "2-5"), (20, "6-20"), (100, "21-100"))


def score_tables(
    case_groups: Mapping[str, Mapping[str, Any]],
    metrics: Mapping[str, Metric[Any]],
    scores: Scores,
) -> dict[str, Table]:
    """Table name → group → score name → value, with `questions` in each group.

    case_groups: case id → table name → the group of the case.
    """
    members_of = _group_members(case_groups, scores)
    if {"precision", "recall"} <= scores.scores.keys():
        members_of["by_precision"] = _group_by_precision(scores)
    tables = {}
    for name, groups in members_of.items():
        tables[name] = _table(groups, metrics, scores)
    return tables


def _group_members(
    case_groups: Mapping[str, Mapping[str, Any]],
    scores: Scores,
) -> dict[str, Members]:
    """Table name → group → row indices; a number is replaced by the label of its range."""
    members_of: dict[str, Members] = {}
    for row, case_id in enumerate(scores.per_case):
        groups = case_groups.get(case_id, {})
        for table, group in groups.items():
            label = _size_label(group) if isinstance(group, int) else group
            members = members_of.setdefault(table, {})
            members.setdefault(label, []).append(row)
    return members_of


def _table(
    groups: Members,
    metrics: Mapping[str, Metric[Any]],
    scores: Scores,
) -> Table:
    table = {}
    for group, rows in sorted(groups.items()):
        table[group] = _group_scores(rows, metrics, scores)
    return table


def _group_scores(
    rows: list[int],
    metrics: Mapping[str, Metric[Any]],
    scores: Scores,
) -> dict[str, float]:
    values = {"questions": float(len(rows))}
    for name, metric in metrics.items():
        if name in scores.tallies:
            total = scores.tallies[name][rows].sum(axis=0)
            values[name] = float(metric.value(total))
    return values


def _group_by_precision(scores: Scores) -> Members:
    buckets: Members = defaultdict(list)
    for row, values in enumerate(scores.per_case.values()):
        if values["recall"] == 1:
            fifth = min(int(values["precision"] * 5), 4)
            low = fifth / 5
            buckets[f"{low:.1f}-{low + 0.2:.1f}"].append(row)
    return dict(buckets)


def _size_label(ids: int) -> str:
    for limit, label in _SIZES:
        if ids <= limit:
            return label
    return "over 100"
