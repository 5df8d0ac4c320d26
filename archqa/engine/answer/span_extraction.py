"""The gist of a sentence: neighbouring pieces between commas that say most of what is asked, as a clinician notes it.

A gist is taken only where it can stand alone: with the subject of what it says, and where the rest holds no negation,
doubt, contrast or condition that it would lose.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from archqa.notes.concepts import concept_names
from archqa.notes.tokens import stems

LENGTHS = (16, 11, 7)
"""Words that a gist may have: the best within each is offered."""
LEAST = 3
_BREAK = re.compile(r"\s*[,;]\s+(?:and\s+)?(?!\d+(?:\.\d+)?,?\s+(?:and|or|to)\b)")
"""Between pieces, but not within `at 4, 8 and 12 months`."""
_BINDING = re.compile(
    r"\b(?:no|not|none|nor|never|neither|without|denie[sd]|deny|negative|absent|unlikely|less likely|ruled? out|r/o|"
    r"free of|if|unless|until|once|or|versus|vs|but|although|though|however|while|despite|instead|rather|except|only|"
    r"either|possib\w+|probab\w+|likely|may|might|could|would|should|suspect\w*|suggest\w*|appear\w*|questionable|"
    r"concern\w*|felt|thought|judged|believed|consider\w*|history|h/o|father|mother|brother|sister|family|"
    r"attempt\w*|refus\w*|hold|held|stop\w*|discontinu\w*|avoid\w*|declin\w*|cannot|unable|un\w+ed)\b|n't\b|\?",
    re.IGNORECASE,
)
"""Words that bind the rest of their sentence: left behind, they would change what a piece of it says."""
_DANGLING = re.compile(
    r"^(?:and|or|but|if|unless|although|though|until|since|once|which|who|whom|that|where|when|while|then|to|of|in|on|"
    r"at|by|from|for|as|than|with|without|after|because|due|per|incl\w*|given|already|also|still|so|plus|may|might|can|"
    r"will|would|should|must|has|had|have|does|did|is|are|his|her|its|\w+ing)\b"
    r"|\b(?:and|or|the|a|an|of|to|in|on|at|by|for|with|was|were|is|are|his|her|any|not|\w+ly)[.]?$",
    re.IGNORECASE,
)
_PREDICATE = re.compile(
    r"^(?:already|also|still|again|then|later|may|might|can|will|would|should|must|has|had|have|does|did|is|are|was|"
    r"were|show(?:s|ed)?|reveal(?:s|ed)?|demonstrate[sd]?|grew|remain(?:s|ed)?|became|consistent with|c/w|"
    r"compatible with|concerning for|considered|recogni[sz]ed|felt|judged|thought|regarded|attributed|presumed)\b",
    re.IGNORECASE,
)
"""How a piece begins that is said of what stands before it: neither is whole without the other."""
_CARRIER = re.compile(
    r"^(?:(?:the\s+)?(?:patient|pt)|he|she|it)\s+(?:was|is|were|are)\s+(?=\w)(?!to\b)",
    re.IGNORECASE,
)
_VERB = re.compile(r"\b(?:was|were|is|are|has|had|have|did|will)\b", re.IGNORECASE)
_SAYS = re.compile(
    r"\d|->|\b(?:was|were|is|are|has|had|have|did|will|due to|\w{3,}ed)\b", re.IGNORECASE
)
"""What a piece must have that is not the first: else it may be the tail of a list (`fatigue, nausea, low fever`)."""
_HEADED = re.compile(r"^[A-Z][\w/ -]{0,24}:\s")
_NORMAL = re.compile(
    r"\b(?:no|not|negative|normal|absent|without|unremarkable|stable)\b", re.IGNORECASE
)
_REASON = re.compile(
    r"\b(?:because|due to|caused?|given|since|so|therefore|2/2|from)\b|->", re.IGNORECASE
)


class Piece(NamedTuple):
    """A part of a sentence from `start` to `end`; `says` is what of the question and of medicine it names.

    `binding`: it holds a word that binds the rest.
    """

    start: int
    end: int
    text: str
    says: frozenset[str]
    binding: bool
    worth: float


def extract_spans(text: str, wanted: frozenset[str]) -> Iterator[str]:
    """The gist within each of `LENGTHS` words, longest first; none where no piece may stand alone."""
    headed = _HEADED.match(text)
    head, body = (headed[0], text[headed.end() :]) if headed else ("", text)
    runs = list(_runs(body.rstrip(". "), wanted))
    for most in LENGTHS:
        able = [
            (worth, -len(said.split()), said) for worth, said in runs if len(said.split()) <= most
        ]
        if able:
            said = max(able)[2]
            yield (head if ";" not in body[: body.index(said)] else "") + _without_carrier(said)


def _runs(body: str, wanted: frozenset[str]) -> Iterator[tuple[float, str]]:
    """Every short run of neighbouring pieces that may stand alone and is not all, with what it is worth."""
    pieces = _pieces(body, wanted)
    told = max((at for at, piece in enumerate(pieces) if _PREDICATE.match(piece.text)), default=-1)
    binding = sum(piece.binding for piece in pieces)
    for first in range(len(pieces)):
        for last in range(first, min(first + LENGTHS[0], len(pieces))):
            run = pieces[first : last + 1]
            said = body[run[0].start : run[-1].end]
            lost = len(run) == len(pieces) or binding > sum(piece.binding for piece in run)
            whole = first > told or (first == 0 and last >= told)
            if whole and not lost and _stands_alone(said, opens=first == 0):
                named = frozenset[str]().union(*(piece.says for piece in run))
                worth = sum(piece.worth for piece in run) + len(named) + len(named & wanted)
                if worth > 0:
                    yield worth, said


def _pieces(body: str, wanted: frozenset[str]) -> list[Piece]:
    breaks = [match.span() for match in _BREAK.finditer(body)]
    starts, ends = [0, *(end for _, end in breaks)], [*(start for start, _ in breaks), len(body)]
    return [
        _piece(body, start, end, wanted)
        for start, end in zip(starts, ends, strict=True)
        if start < end
    ]


def _piece(body: str, start: int, end: int, wanted: frozenset[str]) -> Piece:
    """Numbers, reasons and abnormal findings are worth most; normal ones little, unless they are asked about."""
    text = body[start:end]
    known = concept_names(text)
    says = known | (wanted & frozenset(stems(text)))
    numbers = sum(bool(re.search(r"\d", word)) for word in text.split())
    ordinary = bool(_NORMAL.search(text)) and not says & wanted
    binding = bool(_BINDING.search(text))
    return Piece(
        start,
        end,
        text,
        says,
        binding,
        min(numbers, 3) + 1.5 * bool(_REASON.search(text)) - 2.0 * ordinary,
    )


def _stands_alone(said: str, *, opens: bool) -> bool:
    """Whether it is long enough, leans on nothing and, unless it opens the sentence, says something of its own."""
    return (
        len(said.split()) >= LEAST
        and not _DANGLING.search(said)
        and (opens or bool(_SAYS.search(said)))
    )


def _without_carrier(said: str) -> str:
    """Without `she was`, as in a note, unless another clause leans on it."""
    bare = _CARRIER.sub("", said)
    return said if _VERB.search(bare) or len(bare.split()) < LEAST else bare
