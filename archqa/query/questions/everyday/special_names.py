"""Names that need a second look: vaccines by their disease, allergens, devices and supplies."""

from collections.abc import Iterator, Sequence
from functools import cache

from archqa.core.tables import read_rows
from archqa.query.model import RowKind
from archqa.query.questions.everyday.marks import Clause, Mark
from archqa.query.questions.everyday.vocabulary import Name
from archqa.terminology.concept import Concept
from archqa.terminology.concepts import disease_forms, find_concepts
from archqa.terminology.matching import expand
from archqa.terminology.words import common_form, common_forms

_VACCINE_WORDS = frozenset(
    {"shot", "vaccine", "vaccination", "immunization", "jab", "booster", "inoculation", "series"}
)
_COLLOQUIAL = frozenset({"tetanus"})
"""Diseases that stand for their vaccine where the last one is asked for."""


def known_names(tokens: Sequence[str]) -> Iterator[Mark]:
    """Allergens, devices and supplies of `items.tsv`, which any record may lack."""
    folded = [common_form(token) for token in tokens]
    for words, names in _known_phrases():
        for start in range(len(folded) - len(words) + 1):
            if tuple(folded[start : start + len(words)]) == words:
                yield Mark("name", "known", start, start + len(words), names=names)


@cache
def _known_phrases() -> tuple[tuple[tuple[str, ...], tuple[Name, ...]], ...]:
    phrases = []
    for kind, cell, displays in read_rows("terminology/data/items.tsv", 3):
        names = tuple(_known_name(kind, display) for display in displays.split("|"))
        for form in expand(cell):
            phrases.append((common_forms(form), names))
    return tuple(phrases)


def _known_name(kind: str, display: str) -> Name:
    row_kind: RowKind = kind  # type: ignore[assignment]
    return Name(row_kind, display, is_own=False)


def with_vaccines(clause: Clause) -> Clause:
    """The clause with vaccines in place of diseases where vaccination is asked about.

    A disease that only the table of vaccines has ("polio") stays a vaccine where vaccination is
    asked about, and becomes an unknown word elsewhere: "has he had polio" asks of the disease.
    """
    asks_vaccine = clause.has("row", "immunization") or clause.has("verb", "vaccinate")
    marks = tuple(_as_vaccine(clause, mark, asks_vaccine=asks_vaccine) for mark in clause.marks)
    return clause._replace(marks=marks)


def _as_vaccine(clause: Clause, mark: Mark, *, asks_vaccine: bool) -> Mark:
    if asks_vaccine and mark.kind in {"concept", "unknown"}:
        vaccines = _vaccines_against(mark)
        return mark._replace(kind="concept", concepts=vaccines) if vaccines else mark
    if mark.kind == "concept" and _is_only_disease(mark) and not _is_colloquial(clause, mark):
        others = tuple(each for each in mark.concepts if each.kind != "vaccine")
        return mark._replace(concepts=others, kind="concept" if others else "unknown")
    return mark


def _vaccines_against(mark: Mark) -> tuple[Concept, ...]:
    own = tuple(each for each in mark.concepts if each.kind == "vaccine")
    if own:
        return own
    found = find_concepts(f"{mark.text} vaccine")
    return tuple(each.concept for each in found if each.concept.kind == "vaccine")


def _is_only_disease(mark: Mark) -> bool:
    """Whether the words of a vaccine are those of the disease."""
    if not any(each.kind == "vaccine" for each in mark.concepts):
        return False
    words = frozenset(common_forms(mark.text))
    return not words & _VACCINE_WORDS and " ".join(common_forms(mark.text)) in disease_forms()


def with_drug_classes(clause: Clause) -> Clause:
    """The clause with a class of medicines in place of what is measured: "anything for pain"."""
    asks_medicine = clause.has("row", "medication") or clause.has(
        "verb", "take", "taken", "use", "order"
    )
    asks_medicine = asks_medicine or clause.has("verb", "give")
    if not asks_medicine and not clause.words & {"anything", "something"}:
        return clause
    marks = list(clause.marks)
    for place, mark in enumerate(marks[1:], 1):
        link = _link_before(marks, place)
        classes = _classes_for(mark) if link is not None else ()
        if link is not None and classes:
            marks[place] = mark._replace(concepts=classes)
            marks[link] = marks[link]._replace(kind="filler", value="preposition")
    return clause._replace(marks=tuple(marks))


def _link_before(marks: Sequence[Mark], place: int) -> int | None:
    """The place of "for" before a mark, with nothing but articles and pronouns between."""
    while place > 0 and marks[place - 1].kind == "filler":
        place -= 1
    is_link = place > 0 and marks[place - 1].kind == "link" and marks[place - 1].value == "for"
    return place - 1 if is_link else None


def _classes_for(mark: Mark) -> tuple[Concept, ...]:
    """The medicines for something measured, as "pain medicine" names them."""
    if not mark.concepts or any(each.kind != "measurement" for each in mark.concepts):
        return ()
    found = find_concepts(f"{mark.text} medicine")
    return tuple(each.concept for each in found if each.concept.kind == "drug_class")


def _is_colloquial(clause: Clause, mark: Mark) -> bool:
    return mark.text in _COLLOQUIAL and clause.has("position")
