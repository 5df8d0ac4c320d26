"""Judgements and predictions: declined, with facts that are related to them."""

from collections.abc import Iterator

from archqa.query.model import Query
from archqa.query.questions.everyday.declining import decline
from archqa.query.questions.everyday.marks import Clause, Mark
from archqa.query.questions.everyday.reading import Declined
from archqa.query.scope import When
from archqa.terminology.concept import Concept

_RELATIONS_OF_TIME = frozenset(["after", "before", "between", "once", "since", "until", "while"])
_ASKING = frozenset(
    [
        "are",
        "can",
        "did",
        "do",
        "does",
        "has",
        "have",
        "is",
        "should",
        "was",
        "were",
        "will",
        "would",
        ",",
    ]
)
"""Words that begin to ask anew: what follows is asked, not told."""


def read_judgement(clause: Clause) -> Declined | None:
    """The judgement that a clause asks for, if it has words of judgement."""
    judgements = [mark for mark in clause.of("judgement") if not _tells_time(mark, clause)]
    if not judgements:
        return None
    kinds = {mark.value for mark in judgements}
    kind = "cause_of_death" if "cause_of_death" in kinds else judgements[0].value
    related = dict.fromkeys(_related(clause))
    return decline(kind, *related)


def _tells_time(mark: Mark, clause: Clause) -> bool:
    """Whether the words only tell the time of what is asked: "between the fall and it having healed"."""
    if mark.value != "change":
        return False
    words = [token.text for token in clause.tokens[: mark.start]]
    relations = [place for place, word in enumerate(words) if word in _RELATIONS_OF_TIME]
    if not relations or relations[-1] == 0:
        return False
    return _ASKING.isdisjoint(words[relations[-1] :])


def _related(clause: Clause) -> Iterator[Query]:
    if clause.has("judgement", "cause_of_death"):
        yield Query(what="patient", returns="death_time")
    for mark in clause.of("concept"):
        yield from _facts_about(mark.concepts[0])
    if clause.has("row", "immunization"):
        yield Query(what="immunization", returns="name")
    if clause.has("row", "coverage"):
        yield Query(what="coverage", state="current", returns="payer")
    if clause.has("row", "medication"):
        yield Query(what="medication", state="current", returns="name")
    if clause.has("row", "allergy"):
        yield Query(what="allergy", returns="name")


def _facts_about(concept: Concept) -> Iterator[Query]:
    """What the record holds of the thing that is judged."""
    concepts = (concept.name,)
    if concept.kind == "measurement":
        last = When(position="last")
        yield Query(what="observation", concepts=concepts, when=last)
        yield Query(what="goal", concepts=concepts, returns="target")
    elif concept.kind in {"drug", "drug_class"}:
        yield Query(what="medication", concepts=concepts, returns="name")
        yield Query(what="allergy", returns="name")
    elif concept.kind == "condition":
        yield Query(what="diagnosis", concepts=concepts, returns="time")
    elif concept.kind == "vaccine":
        yield Query(what="immunization", concepts=concepts, returns="time")
    else:
        yield Query(what="procedure", concepts=concepts, returns="time")
