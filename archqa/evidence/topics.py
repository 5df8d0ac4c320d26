"""Whether a sentence is about what is asked: shared concepts, shared body system, and the topic carried from above."""

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Case
from archqa.evidence.concepts import concepts, names
from archqa.evidence.note import Place
from archqa.evidence.question import asked

Column = NDArray[np.float64]
"""One number for each sentence of a case."""
CARRY = 0.7
"""What is left of a topic one sentence further on."""


def columns(case: Case, spots: tuple[Place, ...]) -> dict[str, Column]:
    """Topic features, each of shape (sentences,)."""
    found = [names(each.text) for each in case.sentences]
    question = names(" . ".join([asked(case), *(phrase.text for phrase in case.patient_question)]))
    message = names(case.patient_narrative)
    weight = _rarity(found)
    shared = _shared(found, question, weight)
    titled = _shared([names(spot.title) for spot in spots], question, weight)
    near = question | frozenset(name for each in found if each & question for name in each)
    systems = {concepts()[name].specialty for name in question}
    return {
        "topic.question": shared,
        "topic.message": _shared(found, message, weight),
        "topic.title": titled,
        "topic.carried": carried(shared, spots),
        "topic.linked": _shared(found, near - question, weight),
        "topic.system": np.array([_share(each, systems) for each in found]),
        "topic.foreign": np.array([float(len(each - near - message)) for each in found]),
        "topic.none": np.array([float(not each) for each in found]),
        **{f"topic.{kind}": _kind(found, kind) for kind in ("drug", "procedure", "test", "condition", "finding")},
        **{
            f"topic.asked_{kind}": _kind([each & (question | message) for each in found], kind)
            for kind in ("drug", "procedure", "test")
        },
    }


def carried(strength: Column, spots: tuple[Place, ...]) -> Column:
    """A strength that fades from sentence to sentence and ends where a heading opens a new part."""
    carry, out = 0.0, []
    for value, spot in zip(strength, spots, strict=True):
        carry = max(float(value), 0.0 if spot.heading or spot.labelled else carry * CARRY)
        out.append(carry)
    return np.array(out)


def _shared(found: list[frozenset[str]], wanted: frozenset[str], weight: dict[str, float]) -> Column:
    return np.array([sum(weight.get(name, 1.0) for name in each & wanted) for each in found], dtype=np.float64)


def _rarity(found: list[frozenset[str]]) -> dict[str, float]:
    """A concept in every second sentence of a note tells little; one named twice tells much."""
    counts: dict[str, int] = {}
    for each in found:
        for name in each:
            counts[name] = counts.get(name, 0) + 1
    return {name: max(0.2, float(np.log((len(found) + 1) / (count + 0.5)))) for name, count in counts.items()}


def _share(found: frozenset[str], systems: set[str]) -> float:
    return sum(concepts()[name].specialty in systems for name in found) / len(found) if found else 0.0


def _kind(found: list[frozenset[str]], kind: str) -> Column:
    return np.array([float(min(sum(concepts()[name].kind == kind for name in each), 3)) for each in found])
