"""Words that stand in no table, looked up among the names of the record."""

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache

from archqa.query.questions.everyday.marks import Mark
from archqa.query.questions.everyday.vocabulary import Name, Vocabulary
from archqa.query.questions.lexer import Token
from archqa.terminology.words import common_form, common_forms, word_list

_LINKS = frozenset({"of", "the", "and", "for", "in", "to", "with", "a", "an"})
"""Words inside a name that need not stand in the display."""

_NEGATIONS = frozenset({"without", "no", "not", "absence", "absent", "negative", "free", "denies"})
_SMALLEST_SHARE = 1 / 3
"""A display of three words with content is named by one of them, one of four is not."""

_PART_OF_NAMES = frozenset({"unknown", "concept", "row", "class", "flag", "noun", "verb", "field"})
"""Kinds of marks whose words may belong to a name that has an unknown word as well."""


def name_marks(
    tokens: Sequence[Token], marks: Sequence[Mark], vocabulary: Vocabulary
) -> list[Mark]:
    """The marks with names of the record in place of unknown words, the longest names first."""
    while True:
        named = _longest_name(tokens, marks, vocabulary)
        if named is None:
            return list(marks)
        marks = _replaced(marks, named)


def _longest_name(
    tokens: Sequence[Token], marks: Sequence[Mark], vocabulary: Vocabulary
) -> Mark | None:
    for start, end in _runs(marks):
        words = _content(tokens, start, end)
        names = _names(words, vocabulary)
        if names:
            return Mark("name", "", start, end, names=names)
    return None


def _runs(marks: Sequence[Mark]) -> Iterator[tuple[int, int]]:
    """Stretches of tokens that could be a name and hold an unknown word, the longest first."""
    runs: list[tuple[int, int]] = []
    for first, opening in enumerate(marks):
        if opening.kind not in _PART_OF_NAMES:
            continue
        for last in range(first, len(marks)):
            if not _is_part(marks, last):
                break
            run = marks[first : last + 1]
            if run[-1].kind in _PART_OF_NAMES and any(_is_unknown(each) for each in run):
                runs.append((run[0].start, run[-1].end))
    yield from sorted(runs, key=lambda run: run[0] - run[1])


def _is_part(marks: Sequence[Mark], place: int) -> bool:
    each = marks[place]
    is_link = each.kind in {"filler", "link", "sign"} and each.value in _LINKS | {"-", "/", "&"}
    is_preposition = each.value in {"preposition", "article"}
    return each.kind in _PART_OF_NAMES or is_link or is_preposition


def _is_unknown(each: Mark) -> bool:
    return each.kind == "unknown"


def _content(tokens: Sequence[Token], start: int, end: int) -> tuple[str, ...]:
    words = (token.text for token in tokens[start:end] if not token.is_sign)
    return tuple(word for word in words if word not in _LINKS)


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
    told = _content_words(common_forms(name.display))
    share = _SMALLEST_SHARE if name.is_own else 1
    if share * len(told) > len(told & set(words)):
        return False
    return not _denied(name.display) & set(words) or bool(_NEGATIONS & set(words))


@lru_cache(maxsize=65536)
def _denied(display: str) -> frozenset[str]:
    """The words after a negation in a display."""
    words = common_forms(display)
    first = next((place for place, word in enumerate(words) if word in _NEGATIONS), len(words))
    return frozenset(words[first + 1 :])


@lru_cache(maxsize=65536)
def _content_words(words: tuple[str, ...]) -> frozenset[str]:
    return frozenset(word for word in words if word not in _generic_words() and word[:1].isalpha())


def _replaced(marks: Sequence[Mark], named: Mark) -> list[Mark]:
    kept = [each for each in marks if each.end <= named.start or each.start >= named.end]
    return sorted([*kept, named], key=lambda each: each.start)


@cache
def _generic_words() -> frozenset[str]:
    """The common forms of words that name nothing by themselves: sides, degrees, tags of systems."""
    return frozenset(map(common_form, word_list("generic", "function")))
