"""A clinician's question from a patient's message, by rule: the questions it asks, in the third person, in few words.

What is asked is taken from the message and nothing is added: to put a name for "it" would be to guess.
"""

import re
from functools import cache
from itertools import combinations

from archqa.engine.tables import rows
from archqa.notes.concepts import find_mentions

WORDS = 15
"""Words of a question that are scored (ArchEHR-QA 2026, subtask 1)."""

_SENTENCE = re.compile(r"(?<=[.?!])\s+")
_ASKING = re.compile(
    r"^(?:why|what|when|how|who|where|which|was|were|is|are|did|do|does|can|could|should|will|would|has|have|am)\b",
    re.IGNORECASE,
)
_WHO = {
    "she": ("she", "her", "her"),
    "he": ("he", "his", "him"),
    "": ("the patient", "the", "the patient"),
}


def derive_clinician_question(message: str, words: int = WORDS) -> str:
    """The question behind a message in at most `words` words; the message's own first words if it asks nothing."""
    asked = [_third_person(each, message) for each in extract_questions(message)]
    asked = [each for each in asked if len(each.split()) > 1]
    if not asked:
        return _finished(" ".join(_third_person(message, message).split()[:words]))
    best = max(reversed(asked), key=_weight)
    pairs = [
        f"{one}, and {_lower(other)}"
        for one, other in combinations(asked, 2)
        if best in (one, other)
    ]
    fitting = [each for each in pairs if len(each.split()) <= words]
    return _finished(
        " ".join(max(fitting, key=_weight, default=_shortened(best, words)).split()[:words])
    )


def extract_questions(message: str) -> list[str]:
    """The sentences of a message that ask something, in order, without question marks."""
    sentences = [
        each.strip() for each in _SENTENCE.split(" ".join(message.split())) if each.strip()
    ]
    marked = [each for each in sentences if "?" in each]
    found = marked or [each for each in sentences if _ASKING.match(_bare(each))]
    return [each.rstrip("?!. ") for each in found]


def _third_person(text: str, message: str) -> str:
    who, whose, whom = _WHO[_about(message)]
    text = _bare(text)
    for expression, replacement in _substitutions("word"):
        text = expression.sub(replacement.format(who=who, whose=whose, whom=whom), text)
    for expression, _ in _substitutions("ending"):
        text = expression.sub("", text)
    return " ".join(text.split())


def _bare(text: str) -> str:
    """Without openers, however many."""
    before = ""
    while before != text:
        before = text
        for expression, _ in _substitutions("opener"):
            text = expression.sub("", text)
    return text


def _about(message: str) -> str:
    """Whom the message is about: the first relation it names early on; else the writer."""
    found = [
        (match.start(), kind)
        for kind in ("she", "he")
        for match in _relation(kind).finditer(message[:200])
    ]
    own = re.search(
        r"^\W*(?:i|i'm|my (?!mom|mother|mum|wife|sister|daughter|dad|father|husband|son|brother))\b",
        message,
        re.IGNORECASE,
    )
    return min(found)[1] if found and not own else ""


def _weight(question: str) -> float:
    """A question that names clinical matters and gives a reason to look for says more than one that does not."""
    return (
        len(find_mentions(question))
        + 0.5 * bool(_ASKING.match(question))
        - 0.05 * max(0, len(question.split()) - WORDS)
    )


def _shortened(question: str, words: int) -> str:
    """Of several clauses the first that asks and fits; else the question as it is."""
    if len(question.split()) <= words:
        return question
    clauses = [each.strip() for each in re.split(r"[,;:]|\s-\s", question) if each.strip()]
    asking = [each for each in clauses if _ASKING.match(each) and 4 <= len(each.split()) <= words]
    return asking[0] if asking else question


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _finished(text: str) -> str:
    text = text.strip(" ,;:.!?").replace("|", "/")
    return f"{text[:1].upper()}{text[1:]}?" if text else "What happened?"


@cache
def _relation(kind: str) -> re.Pattern[str]:
    return next(expression for expression, _ in _substitutions(kind))


@cache
def _substitutions(kind: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    found = (row for row in rows("asking.tsv") if row[0] == kind)
    return tuple(
        (re.compile(row[1], re.IGNORECASE), row[2] if len(row) > 2 else "") for row in found
    )
