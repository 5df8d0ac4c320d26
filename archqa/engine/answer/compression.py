"""A sentence made shorter, never cut mid-way: clauses, asides and long-winded forms go; numbers stay longest.

The shortest wordings are gists (gist.py).
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from archqa.core.case import Sentence
from archqa.engine.answer.span_extraction import extract_spans
from archqa.engine.tables import rows
from archqa.notes.concepts import concept_names
from archqa.notes.sections import text_without_list_marker
from archqa.notes.tokens import stems

_NUMBERED = re.compile(r"^(?:PROBLEM\s*)?#?\s*\d*\s*[:.)]\s*", re.IGNORECASE)
_BRACKET = re.compile(r"\s*[(\[][^()\[\]]*[)\]]")
_SEMICOLON = re.compile(r"\s*;\s+")
_SUBJECT = r"(?:he|she|it|they|the|this|his|her|there|was|were|has|had|will|is)"
_TURN = re.compile(rf",\s+(?=(?:and|so)\s+{_SUBJECT}\b)")
"""Between independent clauses. Never before but, although or while: half of a contrast says something else."""
_TAIL = re.compile(
    r",\s+(?:which|who|whom|where|with|without|including|as well as|along with|in addition to|status post|after|"
    r"per)\b[^,;]*$",
    re.IGNORECASE,
)
_CONTRAST = re.compile(
    r"\b(?:but|however|although|though|not everyone|only|unless|if|until|once)\b", re.IGNORECASE
)
_CONNECTIVE = re.compile(
    r"^(?:(?:and|so|next|then|also|however|therefore|in addition|additionally|furthermore|moreover),?\s+)"
    r"(?=(?:the|he|she|they|it|his|her|we|i|a|an|there|this)\b)",
    re.IGNORECASE,
)
"""What ties a sentence to the one before it: a line of an answer stands by itself."""
_LABEL = re.compile(
    r"^(?:(?:brief )?hospital course|history of present illness|hpi|assessment|impression):\s+",
    re.I,
)
_SMALL = re.compile(r"^[a-z]+\b")
LEAST_CLAUSE = 5
"""Words of the shortest clause that may stand for its sentence: a shorter one leans on the one before."""


class SentenceVariant(NamedTuple):
    """One way to say a sentence; `kept` is the share of its content that is still there."""

    text: str
    kept: float

    @property
    def words(self) -> int:
        """Words as the scorer counts them."""
        return len(self.text.split())


def sentence_variants(
    sentence: Sentence, wanted: frozenset[str] = frozenset()
) -> tuple[SentenceVariant, ...]:
    """The sentence from full to shortest, each wording shorter than the last; none where there is no word.

    `wanted` holds the stems and concepts of what is asked: of several clauses the one that says most of it stays.
    """
    full = _plain(text_without_list_marker(sentence))
    if not any(each.isalnum() for each in full):
        return ()
    found: list[SentenceVariant] = []
    for text in _shorter_and_shorter(full, wanted):
        said = finished(text)
        if not found or len(said.split()) < found[-1].words:
            found.append(
                SentenceVariant(
                    said, _weight(said, wanted) / max(_weight(finished(full), wanted), 1.0)
                )
            )
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
    yield from extract_spans(text, wanted)


def finished(text: str) -> str:
    """A capital first (but for the likes of iCa), one full stop last."""
    text = text.strip(" ,;:-")
    text = text[:1].upper() + text[1:] if _SMALL.match(text) else text
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _plain(text: str) -> str:
    """One line, no bar (it would end the citation), no list number, no label of a section, nothing to lean on."""
    text = _NUMBERED.sub("", " ".join(text.replace("|", "/").split()))
    return _CONNECTIVE.sub("", _LABEL.sub("", text))


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
    if len(whole) < 2:
        return text
    best = max(reversed(whole), key=lambda part: _weight(part, wanted))
    return text if any(_CONTRAST.search(part) for part in parts if part is not best) else best


def _weight(text: str, wanted: frozenset[str]) -> float:
    numbers = sum(bool(re.search(r"\d", word)) for word in text.split())
    return len(text.split()) + numbers + 2.0 * len(wanted & {*stems(text), *concept_names(text)})


@cache
def _forms() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(long, re.IGNORECASE), short) for long, short in rows("shorter.tsv"))


@cache
def _openers() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(row[0], re.IGNORECASE) for row in rows("openers.tsv"))
