"""The skeleton of a reading: its queries without what the question names, dates or numbers.

    observation names position=last

Two questions with one skeleton ask the same of different things.
"""

from collections.abc import Collection, Iterator

from archqa.query.everyday import Understood
from archqa.query.model import Companion, Query
from archqa.query.scope import When

NAMES, REASONS, SPANS, NUMBER, NEWEST = "names", "reasons", "spans", "number", "newest"
_RESULTS = frozenset({"observation", "lab", "vital"})
_VALUE = frozenset({"returns=value"})
_LISTED = frozenset({"returns=name", "returns=time", "returns=value"})
_PLAIN_FIELDS = ("state", "flag", "extreme", "grew", "per", "unit", "returns")


def skeleton_of(reading: Understood) -> str:
    """The skeleton of the queries, each once; `or` or `and` joins several."""
    skeletons = dict.fromkeys(map(query_skeleton, reading.queries))
    return f" {reading.joined} ".join(skeletons)


def query_skeleton(query: Query) -> str:
    """The kind of rows, then every field that is not as always."""
    return " ".join([query.what, *_parts(query)])


def factors_of(skeleton: str) -> tuple[str, ...]:
    """The parts of a skeleton, which other skeletons share: `what=observation`, `position=last`."""
    factors: dict[str, None] = {}
    for joined in (" or ", " and "):
        if joined in skeleton:
            factors[f"joined={joined.strip()}"] = None
    for query in skeleton.replace(" or ", " ; ").replace(" and ", " ; ").split(" ; "):
        what, *parts = query.split(" ")
        factors[f"what={what}"] = None
        factors.update(dict.fromkeys(parts))
    return tuple(factors)


def frame_of(skeleton: str) -> str:
    """The frame of a skeleton: what makes no difference to who reads the answer is merged.

    Whether there is a row, and the rows, are shown by the same lines; a date with or without a name.
    """
    joint = " or " if " or " in skeleton else " and "
    frames = dict.fromkeys(map(_frame_of_query, skeleton.split(joint)))
    return joint.join(frames)


def fits(frame: str, kinds: Collection[str]) -> bool:
    """Whether a frame holds what a question names: names, spans, numbers, and nothing else."""
    words = set(frame.replace(":", " ").split())
    named = set(kinds) - {"span", "number", "newest"}
    return (
        bool(words & {NAMES, REASONS}) == bool(named)
        and (SPANS in words) == ("span" in kinds)
        and (NUMBER in words) == ("number" in kinds)
        and (NEWEST in words) == ("newest" in kinds)
    )


def _frame_of_query(skeleton: str) -> str:
    what, *parts = skeleton.split(" ")
    if what == "patient":
        return skeleton
    is_any = "summary=exists" in parts
    plain = _VALUE if what in _RESULTS else _LISTED
    frame = [what]
    for part in parts:
        is_plain = part in plain or (is_any and part.startswith("returns="))
        if part != "summary=exists":
            frame.append("returns=rows" if is_plain else part)
    return " ".join(frame)


def _parts(query: Query) -> Iterator[str]:
    if query.names or query.concepts:
        yield NAMES
    if query.reasons:
        yield REASONS
    if query.value:
        yield NUMBER
    if query.newest:
        yield NEWEST
    yield from _plain_parts(query)
    yield from _when_parts(query.when)
    if query.companion:
        yield _companion_part(query.companion)


def _plain_parts(query: Query) -> Iterator[str]:
    if query.classes:
        yield f"classes={'+'.join(query.classes)}"
    if query.summary != "each":
        yield f"summary={query.summary}"
    for field in _PLAIN_FIELDS:
        value = getattr(query, field)
        if value is not None:
            yield f"{field}={value}"


def _when_parts(when: When) -> Iterator[str]:
    if when.position:
        yield f"position={when.position}"
    if when.visit:
        yield f"visit={when.visit.kind}:{when.visit.which}"
    if when.spans:
        yield SPANS


def _companion_part(companion: Companion) -> str:
    when = ":".join(part.split("=")[-1] for part in _when_parts(companion.when))
    return f"companion={companion.what}:{when}"
