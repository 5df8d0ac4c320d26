"""Words of a question that nothing explained: a name said otherwise, a name the record does not have, or a refusal."""

import re
from collections.abc import Iterable

from rapidfuzz import fuzz, process

from archqa.errors import NotUnderstood
from archqa.fhir.words import fold
from archqa.query.parsing import limits
from archqa.query.parsing.heard import Heard
from archqa.query.parsing.reading import KINDS, Reading
from archqa.query.parsing.text import Word, words
from archqa.query.parsing.vocabulary import Kind, Vocabulary

_NEAR = 87
_MOST = 8
_ALONE = frozenset({"lab", "vital", "medication", "procedure", "diagnosis", "output", "care_unit", "susceptibility"})
_IGNORED = 1
"""So many words may stay unexplained beside names that were found; more is a refusal."""

# Words that change what is asked: whoever passes over them answers another question.
_LIMITING = frozenset(
    [
        "without",
        "except",
        "excluding",
        "besides",
        "unless",
        "because",
        "why",
        "normal",
        "abnormal",
        "abnormally",
        "should",
        "recommended",
        "risk",
        "predict",
        "must",
        "shall",
        "expected",
        "likely",
        "after",
        "before",
        "while",
        "simultaneously",
        "together",
    ]
)


def settle(found: Reading, vocabulary: Vocabulary, theirs: frozenset[tuple[Kind, str]]) -> None:
    """Give every leftover word a meaning, in place. Raises `NotUnderstood` with the words that have none."""
    found = found._replace(leftover=[word for word in found.leftover if not _is_strength(found, word)])
    if found.read.what == "medication":
        found = found._replace(leftover=[word for word in found.leftover if not _is_route(found.read, word)])
    if not found.leftover:
        return
    kind = KINDS.get(found.read.what)
    if kind is not None and found.leftover and _name(found, kind, vocabulary, theirs):
        return
    if len(found.leftover) > _IGNORED or not (found.names or found.read.visits) or _limits(found.leftover):
        raise NotUnderstood(_phrase(found.read.text, found.leftover))


def _is_route(read: Heard, word: Word) -> bool:
    """ "An oral drug": a route, not a part of a drug's name."""
    codes = limits.route_codes(word.text)
    if codes and len(word.text) > 2:
        read.routes = read.routes or codes
        return True
    return False


def _is_strength(found: Reading, word: Word) -> bool:
    """ "81 mg" beside a drug that was found: which product it was, not which drug."""
    text = found.read.text
    is_dose = re.match(r"\d+(?:\.\d+)? ?(?:mg|mcg|g|ml|units?|meq|%)", text[word.start :])
    return bool(found.names) and found.read.what == "medication" and (bool(is_dose) or word.text in _DOSES)


_DOSES = frozenset(
    [
        "mg",
        "mcg",
        "ml",
        "meq",
        "units",
        "unit",
        "tablet",
        "tablets",
        "tab",
        "tabs",
        "capsule",
        "capsules",
        "cap",
        "caps",
        "injection",
        "infusion",
    ]
)


def _limits(leftover: Iterable[Word]) -> bool:
    return any(word.text in _LIMITING or word.text[0].isdigit() for word in leftover)


def _name(found: Reading, kind: Kind, vocabulary: Vocabulary, theirs: frozenset[tuple[Kind, str]]) -> bool:
    """Whether the leftover words, with the names found beside them, are a name."""
    read = found.read
    if len(found.leftover) > _MOST or any(word.text in _LIMITING for word in found.leftover):
        return False
    if read.what == "microbiology_test":
        return _specimen(found, vocabulary)
    beside = [word for each in found.names for word in words(read.text[each.start : each.end])]
    names = _similar([*beside, *found.leftover], kind, vocabulary, theirs)
    if names:
        read.names = names
        return True
    phrase = _phrase(read.text, found.leftover)
    if found.names:
        return _one_more(found, phrase)
    read.names = _similar(found.leftover, kind, vocabulary, theirs) or _similar(words(phrase), kind, vocabulary, theirs)
    if not read.names and read.what in _ALONE and read.says("what", read.what, 2.2) and _stands_as_name(found):
        read.names = (phrase,)
    return bool(read.names)


_BEFORE = re.compile(
    r"(?:\b(?:of|for|with|called|named|prescribed|receive|received|given|taking|take|took|on|an?|the|or|and|undergo|"
    r"undergone|had|have|as)|[,:\"']) ?$"
)
_AFTER = re.compile(
    r"^[\"',]? ?(?:lab|laboratory|test|level|value|result|procedure|surgery|operation|treatment|output|drain|"
    r"prescription|order|dose|medication|drug|diagnosis|disease|microbiology|culture|specimen|careunit|unit|ward|reading|"
    r"measurement|prescribed|ordered|given|administered|performed|checked|measured|drawn|dosage|started)"
)


def _stands_as_name(found: Reading) -> bool:
    """Whether the words stand where a name stands: "a ... lab test", not "was ... in any procedure"."""
    text = found.read.text
    before, after = text[: found.leftover[0].start], text[found.leftover[-1].end :]
    return bool(_BEFORE.search(before) or _AFTER.search(after))


def _one_more(found: Reading, phrase: str) -> bool:
    """ "X, Y or Z" of which the record does not have Y."""
    read = found.read
    before, after = read.text[: found.leftover[0].start].rstrip(), read.text[found.leftover[-1].end :].lstrip()
    is_listed = before.endswith((",", " or", " and", "/")) or after.startswith((",", "or ", "and ", "/"))
    if is_listed and read.what in {"medication", "lab", "procedure", "diagnosis"}:
        read.names = (*read.names, phrase)
    return is_listed


def _specimen(found: Reading, vocabulary: Vocabulary) -> bool:
    read = found.read
    kinds: tuple[Kind, ...] = ("specimen", "microbiology_test", "organism")
    for kind in kinds:
        names = _similar(found.leftover, kind, vocabulary, frozenset())
        if names:
            if kind == "specimen":
                read.specimens = (*read.specimens, *names)
            elif kind == "organism":
                read.organisms = names
            else:
                read.names = names
            return True
    if not found.names and len(found.leftover) <= 4 and _stands_as_name(found):
        read.specimens = (_phrase(read.text, found.leftover),)
        return True
    return False


def _similar(
    said: list[Word], kind: Kind, vocabulary: Vocabulary, theirs: frozenset[tuple[Kind, str]]
) -> tuple[str, ...]:
    """Names of the same words in another order, nearly the same letters, or with all of these words among theirs."""
    known = vocabulary.of_kind(kind)
    wanted = {word.text for word in said}
    same = [name for each, names in known.items() if set(each.split()) == wanted for name in names]
    if same:
        return tuple(dict.fromkeys(same))
    near = process.extractOne(" ".join(word.text for word in said), known.keys(), scorer=fuzz.ratio, score_cutoff=_NEAR)
    if near and _agree(" ".join(word.text for word in said), near[0]):
        return tuple(known[near[0]])
    holding = [name for each, names in known.items() if wanted <= set(each.split()) for name in names]
    own = [name for name in holding if (kind, fold(name)) in theirs]
    return tuple(dict.fromkeys(own or (holding if len(holding) <= _MOST else [])))


def _agree(one: str, other: str) -> bool:
    """Numbers in two names must be the same: 25 mg is not 50 mg."""
    return [word for word in one.split() if word[0].isdigit()] == [word for word in other.split() if word[0].isdigit()]


def _phrase(text: str, leftover: list[Word]) -> str:
    return text[leftover[0].start : leftover[-1].end]
