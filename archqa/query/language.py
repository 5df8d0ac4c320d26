"""The query language described for a model: its kinds of rows and its concepts, from their tables."""

from collections import defaultdict
from functools import cache

from archqa.query.kinds import KINDS, KindOfRows
from archqa.query.model import KINDS_BY_LIMIT
from archqa.terminology.concepts import load_concepts

_SAID_ONCE = frozenset({"names", "concepts"})
"""Limits of nearly all kinds: the prompt says once what they are."""

_UNLISTED = "drug"
"""Drugs are named by their generic name; some 400 of them are not worth a list."""


@cache
def kind_descriptions() -> tuple[str, ...]:
    """One line for each kind of rows: what a row is, what it can return, and how it is limited."""
    return tuple(map(_kind_text, KINDS.values()))


@cache
def concept_names() -> tuple[str, ...]:
    """One line for each kind of concept but drugs: the names of all its concepts."""
    names: dict[str, list[str]] = defaultdict(list)
    for concept in load_concepts():
        if concept.kind != _UNLISTED:
            names[concept.kind].append(concept.name)
    return tuple(f"{_spaced(kind)}: {', '.join(sorted(own))}" for kind, own in names.items())


def _kind_text(kind: KindOfRows) -> str:
    parts = [f"{kind.what}: {kind.meaning}", f"Returns {', '.join(sorted(kind.returns))}."]
    limits = [
        limit
        for limit, kinds in KINDS_BY_LIMIT.items()
        if kind.what in kinds and limit not in _SAID_ONCE
    ]
    if limits:
        parts.append(f"Limits: {', '.join(limits)}.")
    if kind.concepts:
        parts.append(f"Concepts: {', '.join(map(_spaced, kind.concepts))}.")
    elif not kind.named:
        parts.append("No names.")
    return " ".join(parts)


def _spaced(name: str) -> str:
    return name.replace("_", " ")
