"""Words of a question that nothing explained: a name said otherwise, a name the record does not have, or a refusal."""

import re
from collections.abc import Iterable

from rapidfuzz import fuzz, process

from archqa.errors import NotUnderstood
from archqa.fhir.values.tokens import normalise_text
from archqa.query.grammar import limits
from archqa.query.grammar.parse_state import ParseState
from archqa.query.grammar.scan import NAME_KINDS, ParseResult
from archqa.query.grammar.text import TextToken, tokenize
from archqa.query.grammar.vocabulary import NameKind, Vocabulary

_NEAR = 87
_MOST = 8
_ALONE = frozenset(
    {
        "lab",
        "vital",
        "medication",
        "procedure",
        "diagnosis",
        "output",
        "care_unit",
        "susceptibility",
    }
)
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


def resolve_unresolved(
    found: ParseResult, vocabulary: Vocabulary, theirs: frozenset[tuple[NameKind, str]]
) -> None:
    """Give every leftover word a meaning, in place. Raises `NotUnderstood` with the words that have none."""
    found = found._replace(
        unresolved=[word for word in found.unresolved if not _is_strength(found, word)]
    )
    if found.read.what == "medication":
        found = found._replace(
            unresolved=[word for word in found.unresolved if not _is_route(found.read, word)]
        )
    if not found.unresolved:
        return
    kind = NAME_KINDS.get(found.read.what)
    if kind is not None and found.unresolved and _name(found, kind, vocabulary, theirs):
        return
    if (
        len(found.unresolved) > _IGNORED
        or not (found.names or found.read.visits)
        or _limits(found.unresolved)
    ):
        raise NotUnderstood(_phrase(found.read.text, found.unresolved))


def _is_route(read: ParseState, word: TextToken) -> bool:
    """ "An oral drug": a route, not a part of a drug's name."""
    codes = limits.route_codes(word.text)
    if codes and len(word.text) > 2:
        read.routes = read.routes or codes
        return True
    return False


def _is_strength(found: ParseResult, word: TextToken) -> bool:
    """ "81 mg" beside a drug that was found: which product it was, not which drug."""
    text = found.read.text
    is_dose = re.match(r"\d+(?:\.\d+)? ?(?:mg|mcg|g|ml|units?|meq|%)", text[word.start :])
    return (
        bool(found.names)
        and found.read.what == "medication"
        and (bool(is_dose) or word.text in _DOSES)
    )


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


def _limits(leftover: Iterable[TextToken]) -> bool:
    return any(word.text in _LIMITING or word.text[0].isdigit() for word in leftover)


def _name(
    found: ParseResult,
    kind: NameKind,
    vocabulary: Vocabulary,
    theirs: frozenset[tuple[NameKind, str]],
) -> bool:
    """Whether the leftover words, with the names found beside them, are a name."""
    read = found.read
    if len(found.unresolved) > _MOST or any(word.text in _LIMITING for word in found.unresolved):
        return False
    if read.what == "microbiology_test":
        return _specimen(found, vocabulary)
    beside = [word for each in found.names for word in tokenize(read.text[each.start : each.end])]
    names = _similar([*beside, *found.unresolved], kind, vocabulary, theirs)
    if names:
        read.names = names
        return True
    phrase = _phrase(read.text, found.unresolved)
    if found.names:
        return _one_more(found, phrase)
    read.names = _similar(found.unresolved, kind, vocabulary, theirs) or _similar(
        tokenize(phrase), kind, vocabulary, theirs
    )
    if (
        not read.names
        and read.what in _ALONE
        and read.says("what", read.what, 2.2)
        and _stands_as_name(found)
    ):
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


def _stands_as_name(found: ParseResult) -> bool:
    """Whether the words stand where a name stands: "a ... lab test", not "was ... in any procedure"."""
    text = found.read.text
    before, after = text[: found.unresolved[0].start], text[found.unresolved[-1].end :]
    return bool(_BEFORE.search(before) or _AFTER.search(after))


def _one_more(found: ParseResult, phrase: str) -> bool:
    """ "X, Y or Z" of which the record does not have Y."""
    read = found.read
    before, after = (
        read.text[: found.unresolved[0].start].rstrip(),
        read.text[found.unresolved[-1].end :].lstrip(),
    )
    is_listed = before.endswith((",", " or", " and", "/")) or after.startswith(
        (",", "or ", "and ", "/")
    )
    if is_listed and read.what in {"medication", "lab", "procedure", "diagnosis"}:
        read.names = (*read.names, phrase)
    return is_listed


def _specimen(found: ParseResult, vocabulary: Vocabulary) -> bool:
    read = found.read
    kinds: tuple[NameKind, ...] = ("specimen", "microbiology_test", "organism")
    for kind in kinds:
        names = _similar(found.unresolved, kind, vocabulary, frozenset())
        if names:
            if kind == "specimen":
                read.specimens = (*read.specimens, *names)
            elif kind == "organism":
                read.organisms = names
            else:
                read.names = names
            return True
    if not found.names and len(found.unresolved) <= 4 and _stands_as_name(found):
        read.specimens = (_phrase(read.text, found.unresolved),)
        return True
    return False


def _similar(
    said: list[TextToken],
    kind: NameKind,
    vocabulary: Vocabulary,
    theirs: frozenset[tuple[NameKind, str]],
) -> tuple[str, ...]:
    """Names of the same words in another order, nearly the same letters, or with all of these words among theirs."""
    known = vocabulary.of_kind(kind)
    wanted = {word.text for word in said}
    same = [name for each, names in known.items() if set(each.split()) == wanted for name in names]
    if same:
        return tuple(dict.fromkeys(same))
    near = process.extractOne(
        " ".join(word.text for word in said), known.keys(), scorer=fuzz.ratio, score_cutoff=_NEAR
    )
    if near and _agree(" ".join(word.text for word in said), near[0]):
        return tuple(known[near[0]])
    holding = [
        name for each, names in known.items() if wanted <= set(each.split()) for name in names
    ]
    own = [name for name in holding if (kind, normalise_text(name)) in theirs]
    return tuple(dict.fromkeys(own or (holding if len(holding) <= _MOST else [])))


def _agree(one: str, other: str) -> bool:
    """Numbers in two names must be the same: 25 mg is not 50 mg."""
    return [word for word in one.split() if word[0].isdigit()] == [
        word for word in other.split() if word[0].isdigit()
    ]


def _phrase(text: str, leftover: list[TextToken]) -> str:
    return text[leftover[0].start : leftover[-1].end]
