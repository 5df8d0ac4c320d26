"""A question without its names: what it names fills slots, the other words are items.

"Could you pull up mom's last sugar?"
slots: measurement ("glucose"); items: word:pull, word:mom, position:last
text: "could you pull up mom 's last glucose ?"
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from archqa.query.everyday.marks import SILENT, Clause, Mark
from archqa.query.scope import Span
from archqa.terminology.concepts import related

_KIND_OF_SLOT = {"span": "span", "test": "number", "newest": "newest"}
_DRUGS = frozenset({"drug", "drug_class", "medication", "administration"})
_KIND_OF_NAME = {
    "observation": "measurement",
    "diagnosis": "condition",
    "immunization": "vaccine",
    **dict.fromkeys(_DRUGS, "drug"),
}
_PROTOTYPES = {
    "measurement": "glucose",
    "status": "smoking",
    "drug": "metformin",
    "condition": "asthma",
    "vaccine": "flu shot",
    "procedure": "colonoscopy",
    "span": "in 2020",
    "number": "above 100",
    "newest": "last 3",
}
"""What stands for the names of a kind, so that the network reads one question and not a thousand."""
_BETWEEN = frozenset({"filler", "join", "sign"})
_JOINTS = frozenset({"and", "or", ",", "/", "&"})
_NAMING = frozenset({"concept", "name"})


class Slot(NamedTuple):
    """What a question names: its kind, its words, and the concepts, displays or spans they mean."""

    kind: str
    text: str
    means: frozenset[str]
    marks: tuple[Mark, ...]


class Item(NamedTuple):
    """A word or phrase that is no name; `word:` if the grammar does not know it.

    place: of its first word in the words of the wording.
    """

    key: str
    place: int

    @property
    def is_unknown(self) -> bool:
        """Whether the grammar does not know it."""
        return self.key.startswith("word:")


class Wording(NamedTuple):
    """A question with prototypes for its names."""

    words: tuple[str, ...]
    slots: tuple[Slot, ...]
    items: tuple[Item, ...]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of its slots in the order of the alphabet; one kind may stand twice."""
        return tuple(sorted(slot.kind for slot in self.slots))


def wording_of(clause: Clause, text: str) -> Wording:
    """The wording of a clause of a plain question."""
    words: list[str] = []
    slots: list[Slot] = []
    items: list[Item] = []
    for marks in _groups(clause.marks):
        slot = _slot(clause, marks, text)
        if slot is not None:
            slots.append(slot)
            words += _PROTOTYPES.get(slot.kind, slot.text).split()
            continue
        if marks[0].kind not in SILENT:
            items.append(Item(_key(marks[0]), len(words)))
        words += _tokens(clause, marks[0])
    return Wording(tuple(words), tuple(slots), tuple(items))


def text_of(clause: Clause, marks: Sequence[Mark], text: str) -> str:
    """The characters of some marks."""
    start = clause.tokens[marks[0].start].start
    return text[start : clause.tokens[marks[-1].end - 1].end].lower()


def _tokens(clause: Clause, mark: Mark) -> list[str]:
    if mark.kind == "person_name":
        return ["she"]
    return [token.text for token in clause.tokens[mark.start : mark.end]]


def _key(mark: Mark) -> str:
    return f"word:{mark.text}" if mark.kind == "unknown" else f"{mark.kind}:{mark.value}"


def _groups(marks: tuple[Mark, ...]) -> Iterator[tuple[Mark, ...]]:
    """Each mark alone, and names of one kind that "and", "or" or a comma joins together."""
    start = 0
    while start < len(marks):
        end = _end_of_series(marks, start)
        yield marks[start:end]
        start = end


def _end_of_series(marks: tuple[Mark, ...], start: int) -> int:
    end = start + 1
    if marks[start].kind not in _NAMING:
        return end
    for place in range(start + 1, len(marks)):
        each = marks[place]
        if each.kind in _NAMING:
            between = marks[end:place]
            is_joined = any(mark.text in _JOINTS for mark in between)
            if not is_joined or _name_kind(each) != _name_kind(marks[start]):
                return end
            end = place + 1
        elif each.kind not in _BETWEEN:
            return end
    return end


def _slot(clause: Clause, marks: tuple[Mark, ...], text: str) -> Slot | None:
    first = marks[0]
    if first.kind in _NAMING:
        means = frozenset(name for mark in marks for name in _meanings(mark))
        return Slot(_name_kind(first), _fill(clause, marks, text), means, marks)
    if first.kind in _KIND_OF_SLOT:
        means = frozenset(map(str, _contents(first)))
        return Slot(_KIND_OF_SLOT[first.kind], text_of(clause, marks, text), means, marks)
    return None


def _contents(mark: Mark) -> Iterator[Span | object]:
    yield from mark.spans
    if mark.test:
        yield mark.test
    if mark.kind == "newest":
        yield mark.value


def _meanings(mark: Mark) -> Iterator[str]:
    yield from (concept.name for concept in mark.concepts)
    yield from (name.display for name in mark.names)


def _fill(clause: Clause, marks: tuple[Mark, ...], text: str) -> str:
    """The words of names; a single concept by its own name."""
    first = marks[0]
    if len(marks) == 1 and len(first.concepts) == 1 and not first.names:
        return first.concepts[0].name
    return text_of(clause, marks, text)


def _name_kind(mark: Mark) -> str:
    if mark.concepts:
        concept = mark.concepts[0]
        if concept.name in related("status"):
            return "status"
        return _KIND_OF_NAME.get(concept.kind, concept.kind)
    return _KIND_OF_NAME.get(mark.names[0].kind, mark.names[0].kind)
