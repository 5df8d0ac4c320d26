"""The words of a question that a sentence must repeat to be about the same thing."""

import re
from collections.abc import Sequence

from archqa.terminology.concept import Mention
from archqa.terminology.concepts import find_mentions, mentions_of
from archqa.terminology.people import body_part_spans, body_parts
from archqa.terminology.words import stems, word_list

_QUALIFIER = re.compile(
    r"\s(?:when|while|after|since|during|before|because|if|despite|by age|with (?:the|his|her|this|it)"
    r"|on (?:the|his|her|exam\w*|ct|mri|x)|at (?:the|home))\b.*$",
    re.IGNORECASE,
)


def main_part(question: str) -> str:
    """Return a question without what only says when or where ("… when he fell")."""
    return _QUALIFIER.sub("", question)


def content_stems(text: str) -> frozenset[str]:
    """Return the stems of the words that tell one thing from another, parts of the body left out."""
    words = stems(blanked(text, body_part_spans(text)))
    return frozenset(word for word in words if word not in word_list("setting"))


def blanked(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return a text with blanks in the place of the characters of `spans`."""
    characters = list(text)
    for start, end in spans:
        characters[start:end] = " " * (end - start)
    return "".join(characters)


def is_all_else_said(question: str, asked: Sequence[Mention], sentence: str) -> bool:
    """Whether a sentence also names whatever else of the question could tell it from another."""
    names = {mention.concept.name for mention in asked}
    others = [mention for mention in find_mentions(question) if mention.concept.name not in names]
    if not all(mentions_of(mention.concept, sentence) for mention in others):
        return False
    rest = blanked(question, [(mention.start, mention.end) for mention in [*asked, *others]])
    if not body_parts(rest) <= body_parts(sentence):
        return False
    return content_stems(rest) <= set(stems(sentence))
