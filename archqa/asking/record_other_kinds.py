"""Queries for what a record may hold under another kind of rows: smoking as a diagnosis."""

from collections.abc import Iterator
from typing import NamedTuple

from archqa.asking.record_displays import without_marks
from archqa.query.model import Query, RowKind
from archqa.terminology.concepts import related

_OTHER_KINDS: dict[str, tuple[RowKind, ...]] = {
    "diagnosis": ("observation",),
    "observation": ("diagnosis", "microbiology_test", "procedure", "report"),
    "lab": ("procedure", "report"),
    "procedure": ("diagnosis", "observation", "report"),
    "device": ("diagnosis",),
    "imaging": ("report",),
    "immunization": ("medication",),
    "medication": ("procedure",),
    "allergy": ("diagnosis",),
}
"""Kinds of rows under which the same thing may stand."""

_RESULTS = frozenset({"observation", "microbiology_test"})
_GENERIC = frozenset({"result", "test", "vaccine"})
"""Words at the end of a concept's name that rows of another kind need not have."""


class _Wanted(NamedTuple):
    """The names and concepts of rows of another kind."""

    names: tuple[str, ...]
    concepts: tuple[str, ...]


def queries_under_other_kinds(query: Query) -> Iterator[Query]:
    """Yield queries for what a query names, among rows of other kinds, in the same spans of time."""
    if query.summary not in {"exists", "each"}:
        return
    for what in _OTHER_KINDS.get(query.what, ()):
        wanted = _wanted(query, what)
        if wanted.names or wanted.concepts:
            yield Query(
                what=what,
                names=wanted.names,
                concepts=wanted.concepts,
                when=query.when.model_copy(update={"position": None}),
                returns="value" if what in _RESULTS else "time",
                now=query.now,
            )


def _wanted(query: Query, what: RowKind) -> _Wanted:
    """What rows of the other kind must be named, or which concepts they must be of."""
    names = (*map(_plain, query.concepts), *map(without_marks, query.names))
    concepts_by_name = related(f"{query.what} by {what}")
    concepts = tuple(concept for name in names for concept in concepts_by_name.get(name, ()))
    if query.what == "allergy":
        return _Wanted(tuple(f"allergy {name}" for name in names) or ("allergy",), ())
    if query.what == "medication":
        return _Wanted((), concepts)
    if what != "diagnosis":
        return _Wanted(names, concepts)
    if query.what in {"procedure", "device"}:
        return _Wanted((), query.concepts)
    return _Wanted((), concepts)


def _plain(concept: str) -> str:
    """The name of a concept without the word that tells its kind."""
    words = concept.split()
    return " ".join(words[:-1]) if len(words) > 1 and words[-1] in _GENERIC else concept
