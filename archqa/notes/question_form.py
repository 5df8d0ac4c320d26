"""The form of a question: whether yes or no answers it, what turns its meaning, which words decide."""

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from archqa.core.tables import read_rows

MAX_TELEGRAPHIC_WORDS = 7

_LEAD_IN = re.compile(
    r"^(?:(?:so|and|but|ok(?=,)|okay(?=,)|well|also|please|hi|hello|hey|doc|doctor|dr|sorry|just|then|now|thanks"
    r"|quick question|question)\b[\s,.:;-]*)+",
    re.IGNORECASE,
)
_AUXILIARY = (
    r"(?:is|are|was|were|am|do|does|did|has|have|had|can|could|may|might|will|would|shall|should|must"
    r"|ain't)(?:n['’]?t)?|cannot"
)
_INVERTED = re.compile(rf"^(?:{_AUXILIARY})\s+\S", re.IGNORECASE)
_LATER_INVERTED = re.compile(
    rf"[,;:–-]\s+(?:(?:but|so|and)\s+)?(?:{_AUXILIARY})\s+\w+", re.IGNORECASE
)
_QUESTION_WORD = re.compile(
    r"\b(?:what|what's|whats|when|where|why|who|whose|whom|which|how)\b", re.IGNORECASE
)
_ASKS_FOR_WORDS = re.compile(
    r"^(?:(?:do|did)\s+(?:you|someone|anyone|anybody)"
    r"|(?:can|could|would|will|may|shall)\s+(?:you|u|i|we|someone|anyone|anybody))\s+(?:please\s+)?"
    r"(?:tell|say|list|name|give|explain|describe|summari[sz]e|show|remind|know|get|have|find)\b"
    r"(?!\s+(?:a|an|any)\b)",
    re.IGNORECASE,
)
_EXISTENCE = re.compile(
    r"^(?:any|ever|still|anyone|anybody|anything|no|not|first time|needs?|on|hx|hx of|h/o|history of"
    r"|allowed|able|ok|okay|safe|supposed|allergic|due for)\b",
    re.IGNORECASE,
)
_STATE_VERB = re.compile(
    r"^(?:\w+\s+)?(?:walks|lives|drinks|smokes|uses|takes|eats|sleeps|drives|works|needs|has|wears"
    r"|snores|speaks|hears|sees)\b",
    re.IGNORECASE,
)
_PLACE_OR_TIME = re.compile(
    r"\s(?:at|in|on|after|when|since|during|over|with)\s(?!(?:the|his|her|their|my|our) family).*$",
    re.IGNORECASE,
)
_PRIOR = re.compile(
    r"^(?:prior|previous|past|current|known|recent|possible)\s+[\w-]+(?:\s+\w*[^s])?$",
    re.I,
)
_IN_FAMILY = re.compile(r"\bin (?:the|his|her|their|my|our) family$", re.IGNORECASE)
_JOINING = re.compile(
    r"(?:when|where|who)\s+(?:he|she|they|it|we|i|my|the|his|her|you)\b", re.IGNORECASE
)
_NAMES_NOTHING = re.compile(
    r"any(?:one|body)?\s+(?:idea|clue|word|news|know|reason)", re.IGNORECASE
)
_EMBEDS_QUESTION = re.compile(
    r"\b(?:known|stated|documented|clear|say|tell|mentioned)$"
)
_OR_DETERMINER = re.compile(
    r"\bthe\s+\w+(?:\s+\w+)?\s+or\s+the\s+\w+|^(?:is|was|are|were)\s.{0,200}\ban?\s.{0,200}\bor\s+an?\s",
    re.IGNORECASE,
)
_JUDGEMENT_LEAD_IN = re.compile(
    r"^(?:(?:so|and|but|well|also|please|doctor|doc)\b[\s,]*)+", re.IGNORECASE
)
_PERSON = (
    r"(?:i|we|you|he|she|they|it|this|that|(?:my|his|her|our|the|their)\s+\w+(?:\s+\w+)?"
    r"|grand\w+|mom|mum|dad|patient|pt)"
)


_QUALIFIER = re.compile(
    r"\s(?:when|while|after|since|during|before|because|if|despite|by age|with (?:the|his|her|this|it)"
    r"|on (?:the|his|her|exam\w*|ct|mri|x)|at (?:the|home))\b.*$",
    re.IGNORECASE,
)


def is_yes_no_question(question: str) -> bool:
    """Whether yes or no would answer; a question that may ask for more ("job?") is none."""
    text = _bare(question)
    if not text:
        return False
    if " or " in text.lower() and (
        _has("offers_choice", text) or _OR_DETERMINER.search(text)
    ):
        return False
    asked_word = _QUESTION_WORD.search(text)
    if _INVERTED.match(text):
        return not _asks_for_words(text, asked_word)
    if asked_word is None:
        return _LATER_INVERTED.search(text) is not None or _is_telegraphic(text)
    # "When" or "where" may only say of what time or place ("Any pain when he walks").
    start = asked_word.start()
    joins = start > 0 and _JOINING.match(text, start) and not _NAMES_NOTHING.match(text)
    return bool(joins) and _is_telegraphic(text)


def _bare(question: str) -> str:
    text = " ".join(question.split()).strip(" \"'“”¿")
    return _LEAD_IN.sub("", text).rstrip(" ?.!\"'”")


def _asks_for_words(text: str, asked_word: re.Match[str] | None) -> bool:
    """Whether a question in inverted order asks to be told something ("Can you say when …")."""
    if _ASKS_FOR_WORDS.match(text):
        return True
    if asked_word is None or asked_word.start() == 0:
        return False
    # The word asks ("is it known when"), unless it merely joins ("did he, when he").
    word = text[asked_word.start() :].split()[0].lower()
    is_embedded = (
        _EMBEDS_QUESTION.search(text[: asked_word.start()].rstrip()) is not None
    )
    return is_embedded and word in {"when", "where", "who", "which", "whose"}


def _is_telegraphic(text: str) -> bool:
    """Whether a few words name something that is there or not."""
    if re.fullmatch(r"(?:\w+ )?allergies", text, re.IGNORECASE):
        return False
    if _EXISTENCE.match(text):
        return not re.match(r"(?:on|no|not)\s+\w*$", text.lower()) or " " in text
    if len(text.split()) > MAX_TELEGRAPHIC_WORDS:
        return False
    if _has("ends_with_state", text):
        return True
    text = _PLACE_OR_TIME.sub("", text)
    if re.search(r"\bnot done$|\b(?:reason|dose|when|why)\b", text, re.IGNORECASE):
        return False
    if (
        _has("ends_with_state", text)
        or _STATE_VERB.match(text)
        or _IN_FAMILY.search(text)
    ):
        return True
    if _has("names_attribute", text):
        return False
    # Most questions are not telegraphic, and need no terminology.
    from archqa.terminology.concept import Aspect
    from archqa.terminology.concepts import find_mentions

    aspects = {Aspect.FINDING, Aspect.HABIT, Aspect.ALLERGY}
    if _PRIOR.match(text):
        aspects |= {Aspect.PROCEDURE, Aspect.DRUG}
    return any(mention.concept.aspect in aspects for mention in find_mentions(text))


class QuestionForm(NamedTuple):
    """What turns the meaning of a yes/no question's answer."""

    asks_family: bool
    asks_past: bool
    asks_now: bool
    asks_ended: bool
    asks_permission: bool
    asks_plan: bool
    asks_cause: bool
    asks_deed: bool
    asks_negative: bool
    asks_comparison: bool
    is_alternative: bool
    is_telegraphic: bool


def question_form(question: str) -> QuestionForm:
    """Return the form of a question."""
    text = _bare(question)
    flags = {}
    for name in QuestionForm._fields:
        flags[name] = (
            _INVERTED.match(text) is None
            if name == "is_telegraphic"
            else _has(name, text)
        )
    return QuestionForm(**flags)


def _has(name: str, text: str) -> bool:
    """Whether a text has the form of that name in `data/question_patterns.tsv`."""
    return _patterns("form")[name].search(text) is not None


@cache
def _patterns(group: str) -> dict[str, re.Pattern[str]]:
    """The patterns of a group by name; those of one name as alternatives."""
    alternatives: dict[str, list[str]] = {}
    for row_group, name, pattern in read_rows("notes/data/question_patterns.tsv", 3):
        if row_group == group:
            alternative = f"(?:{pattern.replace('PERSON', _PERSON)})"
            alternatives.setdefault(name, []).append(alternative)
    patterns = {}
    for name, texts in alternatives.items():
        patterns[name] = re.compile("|".join(texts), re.IGNORECASE)
    return patterns


def is_judgement(question: str) -> bool:
    """Whether a question asks for advice, a grading or a prediction ("Is it safe to …?").

    A note may still state what its author judged ("may drive after two weeks"), so the caller
    decides whether to decline or to show what the note states.
    """
    text = _JUDGEMENT_LEAD_IN.sub("", " ".join(question.split()))
    return any(pattern.search(text) for pattern in _patterns("judgement").values())


def asking_sentences(
    question: str, sentence_end: re.Pattern[str], opens: re.Pattern[str]
) -> tuple[list[str], list[str]]:
    """Return the sentences of a question that ask, all of them where none does, and the others.

    They end with a question mark or begin with words that ask (`opens`).
    """
    sentences = sentence_end.split(" ".join(question.split()))
    asking = []
    for sentence in sentences:
        if sentence.rstrip().endswith("?") or opens.match(sentence):
            asking.append(sentence)
    asking = asking or sentences
    background = [sentence for sentence in sentences if sentence not in asking]
    return asking, background


def main_part(question: str) -> str:
    """Return a question without what only says when or where ("… when he fell")."""
    return _QUALIFIER.sub("", question)


def blanked(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return a text with blanks in the place of the characters of `spans`."""
    characters = list(text)
    for start, end in spans:
        characters[start:end] = " " * (end - start)
    return "".join(characters)
