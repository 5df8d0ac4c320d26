"""What was read from a question, and why judgements and predictions are declined."""

from collections.abc import Iterator
from functools import cache
from typing import Literal, NamedTuple, cast

from archqa.core.tables import read_rows
from archqa.query.model import Query
from archqa.query.questions.everyday.clause import Clause, Mark
from archqa.query.scope import When
from archqa.terminology.concept import DRUG_KINDS, Concept
from archqa.terminology.words import word_list


class Understood(NamedTuple):
    """One to six queries that hold every word of the question, but those in `unknown`.

    joined: `and`, each answers a part of the question; `or`, the same question is asked of several
    kinds of rows or measurements, and those that have nothing need not be named unless all have.
    assumed: words that were taken for the patient, such as "my mother".
    left_out: sentences that ask nothing and were not taken into account.
    unknown: names of further things that are asked for, which no query holds.
    asks_all: whether every row is asked for, as in "show all", and not only what fits an answer.
    """

    queries: tuple[Query, ...]
    joined: Literal["and", "or"] = "and"
    assumed: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    asks_all: bool = False


class Declined(NamedTuple):
    """A judgement or a prediction, which no record holds, and queries for facts related to it.

    `kind` is that of `data/reasons.tsv`, `reason` its sentence.
    """

    kind: str
    reason: str
    related: tuple[Query, ...] = ()


class NotUnderstood(NamedTuple):
    """The words that could be neither taken into a query nor left out."""

    words: tuple[str, ...]
    reason: str


Reading = Understood | Declined | NotUnderstood

MOST_QUERIES = 3
"""More questions at once are not one short question."""


Ground = Literal["judgement", "notes", "language"]


class Reason(NamedTuple):
    """Why questions of a kind are declined, in a sentence.

    `ground` is `judgement` where no record holds it, `notes` where a note may say what resources do
    not, and `language` where only the grammar's queries cannot express it.
    """

    ground: Ground
    sentence: str


@cache
def decline_reasons() -> dict[str, Reason]:
    """Return the reasons by kind."""
    rows = read_rows("query/questions/everyday/data/reasons.tsv", 3)
    return {
        kind: Reason(cast("Ground", ground), sentence)
        for kind, ground, sentence in rows
    }


@cache
def judgement_reasons() -> dict[str, str]:
    """Return why each kind of judgement is declined that a planner may decline.

    What only the grammar cannot express is none: a planner hands such a question over instead.
    """
    return {
        kind: reason.sentence
        for kind, reason in decline_reasons().items()
        if reason.ground != "language"
    }


def decline(kind: str, *related: Query) -> Declined:
    """Decline a question of this kind, with facts related to it."""
    return Declined(kind, decline_reasons()[kind].sentence, related[:MOST_QUERIES])


_RELATIONS_OF_TIME = word_list("relation of time")
_ASKING = word_list("asking")
"""Words that begin to ask anew: what follows is asked, not told."""


def read_judgement(clause: Clause) -> Declined | None:
    """The judgement that a clause asks for, if it has words of judgement."""
    judgements = [
        mark for mark in clause.of("judgement") if not _tells_time(mark, clause)
    ]
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
    relations = [
        place for place, word in enumerate(words) if word in _RELATIONS_OF_TIME
    ]
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
    elif concept.kind in DRUG_KINDS:
        yield Query(what="medication", concepts=concepts, returns="name")
        yield Query(what="allergy", returns="name")
    elif concept.kind == "condition":
        yield Query(what="diagnosis", concepts=concepts, returns="time")
    elif concept.kind == "vaccine":
        yield Query(what="immunization", concepts=concepts, returns="time")
    else:
        yield Query(what="procedure", concepts=concepts, returns="time")
