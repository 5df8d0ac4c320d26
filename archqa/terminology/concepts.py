"""The concepts of the tables: by name, in questions, in sentences of notes, and how they relate."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, Literal, NamedTuple, TypeVar, cast

from archqa.core.tables import EMPTY, read_rows, split_cell
from archqa.terminology.code_systems import normal_code, systems_by_name
from archqa.terminology.concept import (
    Aspect,
    Code,
    Concept,
    ConceptKind,
    ConceptMatch,
    Forms,
    Mention,
    Relation,
    read_forms,
)
from archqa.terminology.drugs import read_drugs
from archqa.terminology.matching import LetterMatcher, Reading, WordMatcher
from archqa.terminology.words import common_forms, word_list

T = TypeVar("T")

_WORD = re.compile(r"\w+")
_UNCERTAIN = "~"
_CONDITION_SYSTEMS = ("snomed", "icd10", "icd9")
_PROCEDURE_SYSTEMS = ("snomed", "icd10pcs", "icd9pcs")
_ASPECTS: dict[ConceptKind, Aspect] = {
    "measurement": Aspect.MEASUREMENT,
    "drug": Aspect.DRUG,
    "drug_class": Aspect.DRUG,
    "condition": Aspect.FINDING,
    "vaccine": Aspect.PROCEDURE,
    "procedure": Aspect.PROCEDURE,
    "organism": Aspect.FINDING,
    "device": Aspect.PROCEDURE,
}
_HABITS = frozenset({"smoking status", "alcohol use", "drug use"})


@cache
def load_concepts() -> tuple[Concept, ...]:
    """Return the concepts that rows of a record can have: measurements, drugs, then the others."""
    classes = tuple(_drug_classes())
    return (
        *_measurements(),
        *_drugs(classes),
        *classes,
        *_coded_concepts("condition", "conditions", _CONDITION_SYSTEMS),
        *_coded_concepts("vaccine", "vaccines", ("cvx",), has_past=False),
        *_coded_concepts("procedure", "procedures", _PROCEDURE_SYSTEMS),
    )


@cache
def load_stated_concepts() -> tuple[Concept, ...]:
    """Return the concepts that sentences of notes are read for."""
    concepts = []
    for name, aspect, cell in read_rows("terminology/data/findings.tsv", 3):
        forms = read_forms(cell)
        stated = ((Relation.SAME, forms.asked), *forms.stated)
        kind = aspect if aspect in _ASPECTS else "finding"
        of_kind = Aspect(aspect) if kind == "finding" else _ASPECTS[kind]
        concepts.append(Concept(kind, name, of_kind, stated=stated))
    for concept in load_concepts():
        if concept.stated:
            concepts.append(concept)
    return tuple(concepts)


def concept_named(kind: ConceptKind, name: str) -> Concept:
    """Return a concept by its name in the tables.

    Raises:
        KeyError: No concept of this kind has this name.
    """
    return _concepts_by_name()[kind, name]


def concept_text(name: str) -> str:
    """Return the name of a concept with its capitals: `hemoglobin A1c`."""
    return _WORD.sub(lambda word: _words_with_capitals().get(word[0], word[0]), name)


@cache
def _words_with_capitals() -> dict[str, str]:
    return {word.lower(): word for word in word_list("written")}


@cache
def _concepts_by_name() -> dict[tuple[str, str], Concept]:
    return {(concept.kind, concept.name): concept for concept in load_concepts()}


@lru_cache(maxsize=1024)
def find_concepts(question: str) -> tuple[ConceptMatch, ...]:
    """Return the concepts that a question names, in its order, the longest forms first.

    Whole words in any number (`statin`, `statins`); no spelling is corrected. Of an ambiguous
    form all concepts are returned, with one span.
    """
    matches = []
    for start, end, concept in _question_matcher().find(question):
        matches.append(ConceptMatch(start, end, concept))
    return tuple(matches)


@cache
def _question_matcher() -> WordMatcher[Concept]:
    matcher: WordMatcher[Concept] = WordMatcher(Reading.QUESTION)
    for concept in load_concepts():
        matcher.add(concept, concept.forms)
    return matcher


def find_mentions(sentence: str) -> list[Mention]:
    """Return the mentions of all concepts in order, without those inside a longer one."""
    mentions: list[Mention] = []
    for of_concept in mentions_by_concept(sentence).values():
        mentions += of_concept
    return sorted(_without_inner(mentions, mentions), key=lambda mention: mention.start)


@lru_cache(maxsize=4096)
def named_things(text: str) -> tuple[Mention, ...]:
    """Return what a question or a sentence names, of all kinds, in its order.

    Of spans that overlap, only the longest is returned, with all its concepts. A mention is
    `NARROWER` only where its words name no concept of their own; otherwise see `is_kind_of`.
    """
    mentions_by_span: dict[tuple[int, int], dict[Concept, Mention]] = {}
    for mention in sorted(_mentions_by_any_form(text), key=_rank, reverse=True):
        span = mention.start, mention.end
        if span in mentions_by_span:
            mentions_by_span[span].setdefault(mention.concept, mention)
        elif not any(
            start < mention.end and mention.start < end
            for start, end in mentions_by_span
        ):
            mentions_by_span[span] = {mention.concept: mention}
    things: list[Mention] = []
    for _, mentions in sorted(mentions_by_span.items()):
        exact = []
        for mention in mentions.values():
            if mention.relation is not Relation.NARROWER:
                exact.append(mention)
        things += exact or mentions.values()
    return tuple(things)


def _mentions_by_any_form(text: str) -> list[Mention]:
    """Return all mentions but those of states such as "normal", also of forms of questions."""
    mentions = []
    for start, end, concept in find_concepts(text):
        mentions.append(Mention(concept, Relation.SAME, start, end))
    for concept, stated in mentions_by_concept(text).items():
        if concept.aspect not in {Aspect.NORMAL, Aspect.ABNORMAL}:
            mentions += stated
    return mentions


def is_kind_of(narrower: Concept, broader: Concept) -> bool:
    """Tell whether one concept is the other or a kind of it: a hip fracture is a fracture.

    Where each is a kind of the other, both are the same.
    """
    if narrower.ingredients and broader.ingredients:
        ingredients = _plain_ingredients(narrower)
        accepted = _plain_ingredients(broader)
        if narrower.kind == "drug_class":
            return ingredients <= accepted
        if broader.kind == "drug":
            return accepted <= ingredients
        return not accepted.isdisjoint(ingredients)
    return narrower is broader or broader in _broader_concepts(narrower)


def _plain_ingredients(concept: Concept) -> frozenset[str]:
    """Return the ingredients of a drug or class, whatever their dose form."""
    return frozenset(rule.partition("@")[0] for rule in concept.ingredients)


@cache
def _broader_concepts(concept: Concept) -> frozenset[Concept]:
    """Return what a concept is a kind of, and what that is a kind of."""
    broader: dict[Concept, None] = {}
    pending = [concept]
    while pending:
        for parent in _named_after(pending.pop()):
            if parent not in broader:
                broader[parent] = None
                pending.append(parent)
    return frozenset(broader)


def _named_after(concept: Concept) -> Iterator[Concept]:
    """Yield what the tables call a concept a kind of, and what the last words of its name are.

    Of a measurement they do not tell: urine creatinine is no creatinine.
    """
    for name in (concept.name, concept.kind):
        yield from _concepts_by_kind_or_part().get(name, ())
    yield from _concepts_by_kind_or_part().get((concept.kind, concept.name), ())
    if concept.aspect not in {Aspect.FINDING, Aspect.PROCEDURE}:
        return
    not_kinds = related("not a kind of").get(concept.name, ())
    words = concept.name.split()
    for first in range(len(words)):
        last_words = " ".join(words[first:])
        stated = mentions_by_concept(last_words)
        for mention in _mentions_by_any_form(last_words):
            other = mention.concept
            if (
                mention.end - mention.start == len(last_words)
                and mention.relation is not Relation.OPPOSITE
                and (other in stated or other.name == last_words)
                and other.aspect is concept.aspect
                and other.name not in not_kinds
            ):
                yield other


@cache
def _concepts_by_kind_or_part() -> dict[str | tuple[str, str], list[Concept]]:
    """Return the concepts by the names of their kinds, and by the kind and name of their parts."""
    concepts: dict[str | tuple[str, str], list[Concept]] = defaultdict(list)
    for concept in dict.fromkeys((*load_concepts(), *load_stated_concepts())):
        for name in related("kinds").get(concept.name, ()):
            concepts[name].append(concept)
        for name in concept.parts:
            concepts[concept.kind, name].append(concept)
    return concepts


def mentions_of(concept: Concept, sentence: str) -> list[Mention]:
    """Return the mentions of one concept; an opposite hides what it contains ("not nontender")."""
    return list(mentions_by_concept(sentence).get(concept, ()))


@lru_cache(maxsize=1024)
def mentions_by_concept(sentence: str) -> Mapping[Concept, list[Mention]]:
    """Return the mentions by concept, without those inside an opposite of the same concept."""
    mentions: dict[Concept, list[Mention]] = defaultdict(list)
    opposites: dict[Concept, list[Mention]] = defaultdict(list)
    for start, end, (concept, relation) in _sentence_matcher().find(sentence):
        mention = Mention(concept, relation, start, end)
        mentions[concept].append(mention)
        if relation is Relation.OPPOSITE:
            opposites[concept].append(mention)
    for concept, containing in opposites.items():
        mentions[concept] = _without_inner(mentions[concept], containing)
    return mentions


@cache
def _sentence_matcher() -> LetterMatcher[tuple[Concept, Relation]]:
    matcher: LetterMatcher[tuple[Concept, Relation]] = LetterMatcher(Reading.SENTENCE)
    for concept in load_stated_concepts():
        for relation, forms in concept.stated:
            matcher.add((concept, relation), forms)
    return matcher


def _without_inner(mentions: list[Mention], containing: list[Mention]) -> list[Mention]:
    """Return the mentions that are not inside one of the others, which must rank higher."""
    outer = []
    for mention in mentions:
        for other in containing:
            is_inside = other.start <= mention.start and mention.end <= other.end
            if is_inside and _rank(other) > _rank(mention):
                break
        else:
            outer.append(mention)
    return outer


def _rank(mention: Mention) -> tuple[int, bool]:
    """Return what ranks mentions of the same words: the longer, then what is not an opposite."""
    return mention.end - mention.start, mention.relation is not Relation.OPPOSITE


@cache
def words_of_names() -> frozenset[str]:
    """Return the words of all names of concepts, without those of which only the beginning is known."""
    words: set[str] = set()
    for concept in (*load_concepts(), *load_stated_concepts()):
        words.update(" ".join(concept.forms).lower().split())
        for _, forms in concept.stated:
            words.update(" ".join(forms).lower().split())
    return frozenset(filter(str.isalpha, words))


@cache
def related(relation: str) -> dict[str, tuple[str, ...]]:
    """Return by name the names of what is related to it; of an unknown relation, nothing.

    The relations are those of `relations.tsv`, such as `diagnosis by observation`.
    """
    names: dict[str, tuple[str, ...]] = {}
    for row_relation, name, others in read_rows("terminology/data/relations.tsv", 3):
        if row_relation == relation:
            names[name] = split_cell(others)
    return names


class MeasuredState(NamedTuple):
    """A state that values of a measurement show in an adult: a temperature of at least 38 °C."""

    name: str
    measurement: str
    comparison: Literal["greater", "less", "at_least", "at_most"]
    number: float
    unit: str


def measured_state(name: str) -> MeasuredState | None:
    """Return how a condition shows in values; None for one that does not."""
    cells = related("measured state").get(name)
    if cells is None:
        return None
    measurement, comparison, number, unit = cells
    return MeasuredState(
        name, measurement, cast("Any", comparison), float(number), unit
    )


def measurement_kind(concept: Concept) -> str:
    """Return whether a measurement is a vital sign (`vital`), a laboratory result (`lab`) or `other`."""
    for kind, names in related("measurements by kind").items():
        if concept.name in names:
            return kind
    return "lab"


@cache
def disease_forms() -> frozenset[str]:
    """Return the forms of vaccines that name the disease too, in common forms ("tetanus")."""
    names = set()
    for row in read_rows("terminology/data/vaccines.tsv", 6):
        for form in read_forms(row[1]).diseases:
            names.add(" ".join(common_forms(form)))
    return frozenset(names)


TableCode = tuple[Code, bool]
"""A code of a table, and whether it is certain that it codes the concept."""


def _measurements() -> Iterator[Concept]:
    for name, cell, codes, displays, unit, parts in read_rows(
        "terminology/data/tests.tsv", 6
    ):
        yield _concept(
            "measurement",
            name,
            read_forms(cell),
            _codes_of(codes, "loinc"),
            displays=((displays, EMPTY),),
            parts=split_cell(parts),
            unit=None if unit == EMPTY else unit,
        )


def _drugs(classes: Iterable[Concept]) -> Iterator[Concept]:
    """Return the drugs; a form that names a whole class with the drug is left to the class."""
    ingredients_by_form: dict[str, tuple[str, ...]] = {}
    for each in classes:
        ingredients_by_form.update(dict.fromkeys(each.forms, each.ingredients))
    for drug in read_drugs():
        asked = []
        for form in drug.forms.asked:
            if drug.name not in ingredients_by_form.get(form, ()):
                asked.append(form)
        yield _concept(
            "drug",
            drug.name,
            drug.forms._replace(asked=tuple(asked)),
            _codes_of(drug.rxnorm, "rxnorm"),
            ingredients=drug.ingredients,
        )


def _drug_classes() -> Iterator[Concept]:
    rows = read_rows("terminology/data/drug_classes.tsv", 4)
    rules_by_name = {row[0]: split_cell(row[2]) for row in rows}
    parts_by_name = {row[0]: split_cell(row[3]) for row in rows}
    rxnorm_codes = {
        drug.name: _codes_of(drug.rxnorm, "rxnorm") for drug in read_drugs()
    }
    for name, cell, _, _ in rows:
        rules = _with_parts(name, rules_by_name, parts_by_name)
        codes: list[TableCode] = []
        for rule in rules:  # One with a dose form ("timolol@oral") is no drug's name.
            codes += rxnorm_codes.get(rule, ())
        yield _concept(
            "drug_class",
            name,
            read_forms(cell),
            tuple(codes),
            ingredients=rules,
            parts=parts_by_name[name],
        )


def _coded_concepts(
    kind: ConceptKind, table: str, systems: tuple[str, ...], *, has_past: bool = True
) -> Iterator[Concept]:
    """Return the concepts of a table; each has the codes and words of its parts too.

    Its columns are name, forms, codes by system, words, not, past and parts.
    """
    words_column = 2 + len(systems)
    rows = read_rows(
        f"terminology/data/{table}.tsv", words_column + (4 if has_past else 3)
    )
    codes: dict[str, tuple[TableCode, ...]] = {}
    past_codes: dict[str, tuple[TableCode, ...]] = {}
    displays: dict[str, tuple[tuple[str, str], ...]] = {}
    parts: dict[str, tuple[str, ...]] = {}
    for row in rows:
        name = row[0]
        row_codes: list[TableCode] = []
        for cell, system in zip(row[2:words_column], systems, strict=True):
            row_codes += _codes_of(cell, system)
        codes[name] = tuple(row_codes)
        past_codes[name] = _codes_of(row[words_column + 2], "") if has_past else ()
        displays[name] = ((row[words_column], row[words_column + 1]),)
        parts[name] = split_cell(row[-1])
    for row in rows:
        name = row[0]
        yield _concept(
            kind,
            name,
            read_forms(row[1]),
            _with_parts(name, codes, parts),
            _with_parts(name, past_codes, parts),
            displays=_with_parts(name, displays, parts),
            parts=parts[name],
        )


def _concept(
    kind: ConceptKind,
    name: str,
    forms: Forms,
    codes: tuple[TableCode, ...],
    past_codes: tuple[TableCode, ...] = (),
    *,
    displays: tuple[tuple[str, str], ...] = (),
    ingredients: tuple[str, ...] = (),
    parts: tuple[str, ...] = (),
    unit: str | None = None,
) -> Concept:
    uncertain = [code for code, is_certain in (*codes, *past_codes) if not is_certain]
    return Concept(
        kind=kind,
        name=name,
        aspect=Aspect.HABIT if name in _HABITS else _ASPECTS[kind],
        forms=forms.asked,
        stated=forms.stated,
        codes=tuple(code for code, _ in codes),
        past_codes=tuple(code for code, _ in past_codes),
        uncertain=frozenset(uncertain),
        displays=displays,
        ingredients=ingredients,
        parts=parts,
        unit=unit,
    )


def _with_parts(
    name: str, values: Mapping[str, tuple[T, ...]], parts: Mapping[str, tuple[str, ...]]
) -> tuple[T, ...]:
    """Return the values of a concept and of all its parts, each once; both are given by name."""
    united = dict.fromkeys(values[name])
    for part in parts[name]:
        united.update(dict.fromkeys(_with_parts(part, values, parts)))
    return tuple(united)


@cache
def _codes_of(cell: str, default_system: str) -> tuple[TableCode, ...]:
    """Return the codes of a cell; `icd10:Z853` names another system than the column's."""
    codes = []
    for entry in split_cell(cell, " "):
        plain = entry.removeprefix(_UNCERTAIN)
        name, colon, code = plain.partition(":")
        system = systems_by_name()[name if colon else default_system]
        normalised = normal_code(system, code if colon else plain)
        is_certain = plain == entry
        codes.append(((system.url, normalised), is_certain))
    return tuple(codes)
