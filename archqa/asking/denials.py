"""Sentences that do nothing but deny, in other words than the question's."""

import re

from archqa.asking.asked_words import main_part
from archqa.asking.assertions import find_cues
from archqa.asking.question_form import QuestionForm
from archqa.terminology.concepts import find_mentions
from archqa.terminology.people import body_parts

MAX_DENIED_WORDS = 10
"""Words after the denial, and before it, of a sentence that does nothing but deny."""
MAX_WORDS_BEFORE_DENIAL = 7
MAX_RESULT_WORDS = 14
"""Words of a sentence that says no more than that a test was normal."""

_LIST = re.compile(r",|\b(?:or|and)\b")
_TEST = re.compile(
    r"\b(?:ct|mri|mra|x-?rays?|films?|scans?|echo|ultrasound|biopsy|sample|cultures?|swab|smear)\b",
    re.IGNORECASE,
)
_NORMAL_RESULT = re.compile(
    r"\b(?:unremarkable|(?:was|were|is|are|read as) (?:\w+ )?(?:normal|negative|benign)"
    r"|within normal limits)\b",
    re.IGNORECASE,
)
_MORE_IS_SAID = re.compile(
    r"\b(?:but|except|other than|abnormal|positive|shows?|showed)\b", re.IGNORECASE
)


def is_denied_in_other_words(question: str, form: QuestionForm, sentence: str) -> bool:
    """Whether a sentence that answers only denies ("There was no neural impingement").

    False where both name known things and they differ: "no fever" does not answer "night sweats?".
    """
    if form.asks_ended or form.asks_permission or form.asks_family or form.asks_comparison:
        return False
    asked_parts, said_parts = body_parts(question), body_parts(sentence)
    if asked_parts and said_parts and not asked_parts & said_parts:
        return False
    known = find_mentions(main_part(question))
    if not known and asked_parts <= said_parts and _is_normal_test(question, sentence):
        return True
    denied = _only_denied(sentence)
    if known:
        return bool(denied) and not find_mentions(denied) and not _LIST.search(denied)
    return bool(denied)


def _is_normal_test(question: str, sentence: str) -> bool:
    """Whether a sentence says no more than that a test, which the question names, was normal."""
    if not _TEST.search(question) or len(sentence.split()) > MAX_RESULT_WORDS:
        return False
    return bool(_NORMAL_RESULT.search(sentence)) and not _MORE_IS_SAID.search(sentence)


def _only_denied(sentence: str) -> str:
    """Return what a sentence denies if it says nothing else, "" otherwise."""
    cues = [cue for cue in find_cues(sentence) if cue.kind not in {"past", "continues"}]
    denials = [cue for cue in cues if cue.kind == "absent" and cue.reaches_after]
    if not denials or any(cue.kind != "absent" and cue.start > denials[0].start for cue in cues):
        return ""
    before = re.sub(r"^[^:]*:", "", sentence[: denials[0].start])
    after = sentence[denials[0].end :].strip(" .")
    if len(before.split()) > MAX_WORDS_BEFORE_DENIAL or find_mentions(before) or "," in before:
        return ""
    is_one_clause = len(after.split()) <= MAX_DENIED_WORDS and not re.search(r"[;:.]", after)
    return after if is_one_clause else ""
