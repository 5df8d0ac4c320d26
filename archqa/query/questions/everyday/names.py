"""What a clause names: names of the record, vaccines, devices and drug classes, as limits of queries."""

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from archqa.core.tables import read_rows
from archqa.query.model import RowKind
from archqa.query.questions.everyday.clause import Clause, ConsumedWords, Mark
from archqa.query.questions.everyday.vocabulary import Name, Vocabulary
from archqa.query.questions.lexer import SEPARATORS, Token
from archqa.terminology.concept import Concept
from archqa.terminology.concepts import disease_forms, find_concepts
from archqa.terminology.matching import expand
from archqa.terminology.words import common_form, common_forms, word_list

_LINKS = word_list("link")
"""Words inside a name that need not stand in the display."""

_LINKING_VALUES = _LINKS | {"-", "/", "&"}
_NEGATIONS = word_list("negation")
_SMALLEST_SHARE = 1 / 3
"""A display of three words with content is named by one of them, one of four is not."""

_PART_OF_NAMES = frozenset(
    {"unknown", "concept", "row", "class", "flag", "noun", "verb", "field"}
)
"""Kinds of marks whose words may belong to a name that has an unknown word as well."""


def name_marks(
    tokens: Sequence[Token], marks: Sequence[Mark], vocabulary: Vocabulary
) -> list[Mark]:
    """The marks with names of the record in place of unknown words, the longest names first."""
    while True:
        for start, end in _runs(marks):
            words = []
            for token in tokens[start:end]:
                if token.text not in SEPARATORS and token.text not in _LINKS:
                    words.append(token.text)
            names = _names(tuple(words), vocabulary)
            if names:
                break
        else:
            return list(marks)
        others = [each for each in marks if each.end <= start or each.start >= end]
        named = Mark("name", "", start, end, names=names)
        marks = sorted([*others, named], key=lambda each: each.start)


def _runs(marks: Sequence[Mark]) -> list[tuple[int, int]]:
    """Stretches of tokens that could be a name and hold an unknown word, the longest first."""
    runs: list[tuple[int, int]] = []
    for first, opening in enumerate(marks):
        if opening.kind not in _PART_OF_NAMES:
            continue
        has_unknown = False
        for mark in marks[first:]:
            has_unknown = has_unknown or mark.kind == "unknown"
            if mark.kind in _PART_OF_NAMES:
                if has_unknown:
                    runs.append((opening.start, mark.end))
                continue
            is_link = (
                mark.kind in {"filler", "link", "sign"}
                and mark.value in _LINKING_VALUES
            )
            if not is_link and mark.value not in {"preposition", "article"}:
                break
    return sorted(runs, key=lambda run: run[0] - run[1])


def _names(words: tuple[str, ...], vocabulary: Vocabulary) -> tuple[Name, ...]:
    """The names that the words may stand for: they say a good part of what the name says."""
    folded = tuple(map(common_form, words))
    has_repetition = len(set(folded)) < len(folded)
    if has_repetition or {words[0], words[-1]} & word_list("function"):
        return ()
    if not _content_words(folded):
        return ()
    names = vocabulary.holding(words)
    return tuple(name for name in names if _says_enough(folded, name))


def _says_enough(words: tuple[str, ...], name: Name) -> bool:
    """Whether the words are a third of the content of a display, and none of what it denies.

    "Partner" does not stand for a question of a survey that happens to have the word, nor
    "sedation" for "intubation without sedation". A name that only other patients have must be said
    in full: that there is no "infection of tooth" does not tell of infections.
    """
    content = _content_words(common_forms(name.display))
    share = _SMALLEST_SHARE if name.is_own else 1
    if share * len(content) > len(content & set(words)):
        return False
    # A condition of the family is none of the patient's.
    if "family" in content and "family" not in words and name.kind == "diagnosis":
        return False
    return not _denied(name.display) & set(words) or bool(_NEGATIONS & set(words))


@lru_cache(maxsize=65536)
def _denied(display: str) -> frozenset[str]:
    """The words after a negation in a display."""
    words = common_forms(display)
    first = next(
        (place for place, word in enumerate(words) if word in _NEGATIONS), len(words)
    )
    return frozenset(words[first + 1 :])


@lru_cache(maxsize=65536)
def _content_words(words: tuple[str, ...]) -> frozenset[str]:
    return frozenset(
        word for word in words if word not in _generic_words() and word[:1].isalpha()
    )


@cache
def _generic_words() -> frozenset[str]:
    """The common forms of words that name nothing by themselves: sides, degrees, tags of systems."""
    return frozenset(map(common_form, word_list("generic", "function")))


_VACCINE_WORDS = word_list("vaccine")
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
        row_kind: RowKind = kind  # type: ignore[assignment]
        names = tuple(
            Name(row_kind, display, is_own=False) for display in displays.split("|")
        )
        for form in expand(cell):
            phrases.append((common_forms(form), names))
    return tuple(phrases)


def with_vaccines(clause: Clause) -> Clause:
    """The clause with vaccines in place of diseases where vaccination is asked about.

    A disease that only the table of vaccines has ("polio") stays a vaccine where vaccination is
    asked about, and becomes an unknown word elsewhere: "has he had polio" asks of the disease.
    """
    asks_vaccine = clause.has("row", "immunization") or clause.has("verb", "vaccinate")
    marks = list(clause.marks)
    for place, mark in enumerate(marks):
        vaccines = tuple(each for each in mark.concepts if each.kind == "vaccine")
        if asks_vaccine and mark.kind in {"concept", "unknown"}:
            vaccines = vaccines or _concepts_in(f"{mark.text} vaccine", "vaccine")
            if vaccines:
                marks[place] = mark._replace(kind="concept", concepts=vaccines)
        elif mark.kind == "concept" and vaccines and _is_only_disease(mark.text):
            is_colloquial = mark.text in _COLLOQUIAL and clause.has("position")
            if not is_colloquial:
                others = tuple(each for each in mark.concepts if each.kind != "vaccine")
                kind = "concept" if others else "unknown"
                marks[place] = mark._replace(concepts=others, kind=kind)
    return clause._replace(marks=tuple(marks))


def _concepts_in(text: str, kind: str) -> tuple[Concept, ...]:
    concepts = [match.concept for match in find_concepts(text)]
    return tuple(concept for concept in concepts if concept.kind == kind)


def _is_only_disease(text: str) -> bool:
    """Whether the words of a vaccine are those of the disease."""
    words = common_forms(text)
    return _VACCINE_WORDS.isdisjoint(words) and " ".join(words) in disease_forms()


def with_drug_classes(clause: Clause) -> Clause:
    """The clause with a class of medicines in place of what is measured: "anything for pain"."""
    has_verb = clause.has("verb", "take", "taken", "use", "order", "give")
    asks_medicine = has_verb or clause.has("row", "medication")
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
    is_link = (
        place > 0
        and marks[place - 1].kind == "link"
        and marks[place - 1].value == "for"
    )
    return place - 1 if is_link else None


def _classes_for(mark: Mark) -> tuple[Concept, ...]:
    """The medicines for something measured, as "pain medicine" names them."""
    if not mark.concepts or any(each.kind != "measurement" for each in mark.concepts):
        return ()
    return _concepts_in(f"{mark.text} medicine", "drug_class")


_BETWEEN = frozenset({"filler", "person_name"})


class NameLimit(NamedTuple):
    """Names and concepts of one query: rows that have any of them."""

    names: tuple[str, ...] = ()
    concepts: tuple[str, ...] = ()

    def united(self, other: "NameLimit") -> "NameLimit":
        """Rows that have any of both."""
        names = tuple(dict.fromkeys((*self.names, *other.names)))
        return NameLimit(names, tuple(dict.fromkeys((*self.concepts, *other.concepts))))


class Named(NamedTuple):
    """The limits by name, one for each query, and how they are joined. No limits: nothing named."""

    limits: tuple[NameLimit, ...] = ()
    joined: Literal["and", "or"] = "and"


class Nameable(NamedTuple):
    """Which concepts and names of the record name the rows of one kind."""

    concepts: frozenset[str]
    rows: frozenset[str]

    def limit(self, mark: Mark) -> NameLimit | None:
        """The limit that a mark sets on such rows; None if it names something else."""
        concepts = tuple(
            each.name for each in mark.concepts if each.kind in self.concepts
        )
        names = tuple(name.display for name in mark.names if name.kind in self.rows)
        if not concepts and not names:
            return None
        return NameLimit(names, concepts)


def names_of(words: ConsumedWords, nameable: Nameable) -> Named:
    """The names of rows, each a limit of its own; names joined by "or" make one limit.

    Several names must be joined by "and", "or" or commas; else only the first is used, and the
    others are left over.
    """
    marks = named_marks(words.clause, nameable)
    # The first mark, and those that "and", "or" or a comma joins to it.
    series = list(marks[:1])
    for following in marks[1:]:
        is_joined = False
        is_interrupted = False
        for each in words.clause.marks:
            if not series[-1].end <= each.start < following.start:
                continue
            if each.kind == "join" or each.text in {",", "/", "&"}:
                is_joined = True
            elif each.kind not in _BETWEEN:
                is_interrupted = True
        if not is_joined or is_interrupted:
            break
        series.append(following)
    words.used.update(series)
    limits = [limit for mark in series if (limit := nameable.limit(mark))]
    repeated = [mark for mark in marks if nameable.limit(mark) in limits]
    words.used.update(repeated)
    ors = words.clause.of("join", "or")
    if len(limits) > 1 and any(
        series[0].start < mark.start < series[-1].end for mark in ors
    ):
        united = limits[0]
        for limit in limits[1:]:
            united = united.united(limit)
        return Named((united,))
    return Named(tuple(limits))


def use_for_before_names(words: ConsumedWords, nameable: Nameable) -> None:
    """Note "for" right before a name as used: "a prescription for sumatriptan"."""
    starts = {mark.start for mark in named_marks(words.clause, nameable)}
    links = words.unused("link", "for")
    for place, mark in enumerate(words.clause.marks):
        following = [
            each
            for each in words.clause.marks[place + 1 :]
            if each.kind not in _BETWEEN
        ]
        if mark in links and following and following[0].start in starts:
            words.used.update([mark])


def named_marks(clause: Clause, nameable: Nameable) -> tuple[Mark, ...]:
    """The marks that name such rows."""
    marks = clause.of("concept") + clause.of("name")
    named = [mark for mark in marks if nameable.limit(mark) is not None]
    return tuple(sorted(named, key=lambda mark: mark.start))


_LINKS_OF_REASONS = frozenset({"for", "because", "with"})
CONDITIONS = Nameable(frozenset({"condition"}), frozenset({"diagnosis"}))


def reasons_of(
    words: ConsumedWords, *, compounds: tuple[Mark, ...] = ()
) -> tuple[str, ...]:
    """The conditions that limit rows by their reason.

    They follow "for", "because of" or "with"; or they stand right before one of the `compounds`.
    """
    reasons: list[str] = []
    for mark in named_marks(words.clause, CONDITIONS):
        link = _link_of_reason(words.clause, mark)
        if link is None and not any(
            mark.end == compound.start for compound in compounds
        ):
            continue
        words.used.update([mark] if link is None else [mark, link])
        limit = CONDITIONS.limit(mark)
        if limit is not None:
            reasons += [*limit.concepts, *limit.names]
    return tuple(dict.fromkeys(reasons))


def _link_of_reason(clause: Clause, mark: Mark) -> Mark | None:
    """The link right before a mark; only words that carry nothing, or "or", stand between."""
    for each in reversed([each for each in clause.marks if each.end <= mark.start]):
        if each.kind == "link" and each.value in _LINKS_OF_REASONS:
            return each
        is_condition = CONDITIONS.limit(each) is not None
        if each.kind not in {"filler", "join", "person_name"} and not is_condition:
            return None
    return None
