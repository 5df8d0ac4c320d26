"""A sentence made shorter, never cut mid-way: clauses, asides and long-winded forms go; numbers stay longest.

The shortest wording is the gist: the one piece between commas that says most of what is asked, as a clinician notes it
down. It is taken only where the rest holds no negation, doubt, contrast or condition that the piece would lose.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from archqa.core.case import Sentence
from archqa.evidence.concepts import names
from archqa.evidence.note import bare
from archqa.evidence.tables import rows
from archqa.evidence.words import stems

_NUMBERED = re.compile(r"^(?:PROBLEM\s*)?#?\s*\d*\s*[:.)]\s*", re.IGNORECASE)
_BRACKET = re.compile(r"\s*[(\[][^()\[\]]*[)\]]")
_SEMICOLON = re.compile(r"\s*;\s+")
_SUBJECT = r"(?:he|she|it|they|the|this|his|her|there|was|were|has|had|will|is)"
_TURN = re.compile(rf",\s+(?=(?:and|so)\s+{_SUBJECT}\b)")
"""Between independent clauses. Never before but, although or while: half of a contrast says something else."""
_TAIL = re.compile(
    r",\s+(?:which|who|whom|where|with|without|including|as well as|along with|in addition to|status post|after|given|"
    r"per)\b[^,;]*$",
    re.IGNORECASE,
)
_PIECE = re.compile(r"\s*[,;]\s+(?:and\s+)?")
_BINDING = re.compile(
    r"\b(?:no|not|none|nor|never|neither|without|denie[sd]|deny|negative|absent|unlikely|less likely|ruled? out|r/o|"
    r"free of|if|unless|until|or|versus|vs|but|although|though|however|while|despite|instead|rather|except|only|either|"
    r"possib\w+|probab\w+|likely|may|might|could|would|should|suspect\w*|suggest\w*|appear\w*|questionable|"
    r"concern\w*|felt|thought|judged|believed|consider\w*|history|h/o|father|mother|brother|sister|family|"
    r"hold|held|stop\w*|discontinu\w*|avoid\w*|refus\w*|declin\w*|cannot|unable|un\w+ed)\b|n't\b|\?",
    re.IGNORECASE,
)
"""Words that bind the rest of their sentence: left behind, they would change what a piece of it says."""
_DANGLING = re.compile(
    r"^(?:and|or|but|if|unless|although|though|until|since|once|which|who|whom|that|where|when|while|then|to|of|in|on|"
    r"at|by|from|for|as|than|with|without|after|because|due|per|incl\w*|given|already|also|still|so|may|might|can|will|would|should|must|has|had|have|"
    r"does|did|is|are|his|her|its)\b|\b(?:and|or|the|a|an|of|to|in|on|at|by|for|with|was|were|is|are|his|her|any|not)[.]?$",
    re.IGNORECASE,
)
_PREDICATE = re.compile(
    r"^(?:already|also|still|again|then|later|may|might|can|will|would|should|must|has|had|have|does|did|is|are|was|"
    r"were|show(?:s|ed)?|reveal(?:s|ed)?|demonstrate[sd]?|grew|remain(?:s|ed)?|became)\b",
    re.IGNORECASE,
)
"""How a piece begins whose subject stands before it: what comes before is no sentence without it."""
_CARRIER = re.compile(r"^(?:(?:the\s+)?(?:patient|pt)|he|she|it|there)\s+(?:was|is|were|are)\s+(?=\w)", re.IGNORECASE)
_HEADED = re.compile(r"^[A-Z][\w/ -]{0,24}:\s")
LEAST_CLAUSE, LEAST_GIST = 5, 3
"""Words of the shortest clause and gist that may stand for their sentence: a shorter clause leans on the one before."""


class Wording(NamedTuple):
    """One way to say a sentence; `kept` is the share of its content that is still there."""

    text: str
    kept: float

    @property
    def words(self) -> int:
        """Words as the scorer counts them."""
        return len(self.text.split())


def wordings(sentence: Sentence, wanted: frozenset[str] = frozenset()) -> tuple[Wording, ...]:
    """The sentence from full to shortest, each wording shorter than the last; none where there is no word.

    `wanted` holds the stems and concepts of what is asked: of several clauses the one that says most of it stays.
    """
    full = _plain(bare(sentence))
    if not any(each.isalnum() for each in full):
        return ()
    found: list[Wording] = []
    for text in _shorter_and_shorter(full, wanted):
        said = finished(text)
        if not found or len(said.split()) < found[-1].words:
            found.append(Wording(said, _weight(said, wanted) / max(_weight(finished(full), wanted), 1.0)))
    return tuple(found)


def _shorter_and_shorter(text: str, wanted: frozenset[str]) -> Iterator[str]:
    yield text
    text = _short(text)
    yield text
    for trim in (_without_opener, _without_plain_brackets, _without_tail, _without_brackets):
        text = trim(text)
        yield text
    text = _without_opener(_best_clause(text, wanted))
    yield text
    yield _gist(text, wanted)


def finished(text: str) -> str:
    """A capital first, one full stop last."""
    text = text.strip(" ,;:-")
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _plain(text: str) -> str:
    """One line, no bar (it would end the citation), no list number."""
    return _NUMBERED.sub("", " ".join(text.replace("|", "/").split()))


def _short(text: str) -> str:
    for long, short in _forms():
        text = long.sub(short, text)
    return " ".join(text.split())


def _without_opener(text: str) -> str:
    head, comma, rest = text.partition(", ")
    opener = comma and len(rest.split()) >= 4 and any(form.fullmatch(head) for form in _openers())
    return rest if opener and not re.search(r"\d", head) else text


def _without_plain_brackets(text: str) -> str:
    return _BRACKET.sub(lambda match: match[0] if re.search(r"\d", match[0]) else "", text)


def _without_brackets(text: str) -> str:
    return _BRACKET.sub("", text)


def _without_tail(text: str) -> str:
    shorter = _TAIL.sub("", text.rstrip(". "))
    return shorter if len(shorter.split()) >= 4 else text


def _best_clause(text: str, wanted: frozenset[str]) -> str:
    """Of several independent clauses the one that says most of what is asked, and the later among equals."""
    parts = [part for piece in _SEMICOLON.split(text) for part in _TURN.split(piece)]
    whole = [part for part in parts if len(part.split()) >= LEAST_CLAUSE]
    return max(reversed(whole), key=lambda part: _weight(part, wanted)) if len(whole) > 1 else text


def _gist(text: str, wanted: frozenset[str]) -> str:
    """The piece that says most for its words, under its sentence's heading; the whole where none may stand alone."""
    headed = _HEADED.match(text)
    head, body = (headed[0], text[headed.end() :]) if headed else ("", text)
    pieces = [piece for piece in _PIECE.split(body.rstrip(". ")) if piece]
    told = max((at for at, piece in enumerate(pieces) if _PREDICATE.match(piece)), default=-1)
    able = [
        piece for at, piece in enumerate(pieces) if at > told and _stands_alone(piece, pieces[:at] + pieces[at + 1 :])
    ]
    if not able:
        return text
    best = max(able, key=lambda piece: _weight(piece, wanted) / (3 + len(piece.split())) + (piece is pieces[0]) / 3)
    bare_piece = _CARRIER.sub("", best)
    return head + (bare_piece if len(bare_piece.split()) >= LEAST_GIST else best)


def _stands_alone(piece: str, rest: list[str]) -> bool:
    enough = len(piece.split()) >= LEAST_GIST
    return enough and not _DANGLING.search(piece) and not any(_BINDING.search(each) for each in rest)


def _weight(text: str, wanted: frozenset[str]) -> float:
    numbers = sum(bool(re.search(r"\d", word)) for word in text.split())
    return len(text.split()) + numbers + 2.0 * len(wanted & {*stems(text), *names(text)})


@cache
def _forms() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(long, re.IGNORECASE), short) for long, short in rows("shorter.tsv"))


@cache
def _openers() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(row[0], re.IGNORECASE) for row in rows("openers.tsv"))
