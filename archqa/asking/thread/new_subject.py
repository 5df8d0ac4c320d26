"""Whether a question names something of its own, and what it names in place of the last subject."""

from typing import NamedTuple

from archqa.asking.thread.follow_up_words import FollowUpWords
from archqa.asking.thread.phrases import edge_words
from archqa.asking.thread.subjects import AskedBefore, Subject, subjects_of
from archqa.query.questions.everyday.clause import Mark

_NAMING = frozenset({"concept", "name", "unknown", "germ"})
_OWN = _NAMING | {"specimen", "class", "row", "person"}
_BESIDE_NAMES = frozenset({"article", "pronoun"})
_ARTICLES = frozenset({"a", "an", "the", "his", "her", "my", "their"})
_PERSONAL = frozenset({"he", "she", "i", "they", "we", "you", "him", "them", "me"})
_PREPOSITIONS = frozenset({"for", "with", "to", "on", "of", "against"})
_LONGEST_FRAGMENT = 5


class NamedSubject(NamedTuple):
    """A name that takes the place of the last subject, and a stretch of time, if it has one."""

    text: str
    has_article: bool
    period: str


def has_own_subject(words: FollowUpWords) -> bool:
    """Whether a question names a thing of its own."""
    return any(each.kind in _OWN and not _names_nothing(each) for each in words.clause.marks)


def says_nothing(words: FollowUpWords) -> bool:
    """Whether a question has words such as "happened", which name nothing by themselves."""
    return any(_names_nothing(each) for each in words.clause.marks)


def _names_nothing(each: Mark) -> bool:
    empty = {word for phrase in edge_words("empty") for word in phrase.words}
    return each.kind == "unknown" and set(each.text.split()) <= empty


def is_fragment(words: FollowUpWords) -> bool:
    """Whether a question is too short to say of what it asks."""
    has_person = bool(_PERSONAL & set(words.all_words))
    return len(words.words) <= _LONGEST_FRAGMENT and not has_person


def names_subject_before_reference(words: FollowUpWords) -> bool:
    """Whether "it" may mean what the question itself has named before."""
    first = words.references[0].start
    return any(subject.start < first for subject in subjects_of(words.text, words.clause))


def named_subject(words: FollowUpWords, asked: AskedBefore) -> NamedSubject | None:
    """Return the name that a follow-up consists of, if the last question can be asked of it."""
    marks = _core_marks(words)
    names = [each for each in marks if each.kind in _NAMING]
    if not names or not asked.subjects or not _is_one_place(asked):
        return None
    if words.periods and not words.has_lead:  # A whole question in shorthand.
        return None
    preposition = _preposition(words, marks)
    if preposition:
        marks = marks[1:]
    is_asked_so = preposition == _preposition_before(asked) if preposition else None
    if is_asked_so is False or not all(_belongs_to_name(each) for each in marks):
        return None
    if not is_asked_so and not _may_replace(words, names, asked):
        return None
    first = next(each for each in marks if each.kind != "span")
    last = [each for each in marks if each.kind != "span"][-1]
    tokens = words.clause.tokens
    text = words.text[tokens[first.start].start : tokens[last.end - 1].end]
    if text.lower() in {subject.name.lower() for subject in asked.subjects}:
        return None
    has_article = tokens[first.start].text in _ARTICLES
    return NamedSubject(text, has_article, next(iter(words.periods), ""))


def _core_marks(words: FollowUpWords) -> list[Mark]:
    """The marks between the words at the edges, without signs."""
    if not words.words:
        return []
    tokens, start, end = words.clause.tokens, words.words[0].start, words.words[-1].end
    return [
        each
        for each in words.clause.marks
        if each.kind != "sign"
        and tokens[each.start].start >= start
        and tokens[each.end - 1].end <= end
    ]


def _belongs_to_name(each: Mark) -> bool:
    if each.kind == "filler":
        return each.value in _BESIDE_NAMES and each.text not in _PERSONAL
    is_measure = each.kind == "noun" and each.value == "measure"
    is_name = each.kind in _NAMING and not _PERSONAL & set(each.text.split())
    return is_name or each.kind == "span" or is_measure


def _preposition(words: FollowUpWords, marks: list[Mark]) -> str:
    text = words.clause.tokens[marks[0].start].text
    return text if text in _PREPOSITIONS and marks[0].kind in {"filler", "link"} else ""


def _preposition_before(asked: AskedBefore) -> str:
    """The preposition before the subject of the last question."""
    before = asked.text[: asked.subjects[0].start].lower().split()
    if before and before[-1] in _ARTICLES:
        before.pop()
    return before[-1] if before else ""


def _is_one_place(asked: AskedBefore) -> bool:
    """Whether the subjects are one, or a list joined by "or" and "and"."""
    for former, following in zip(asked.subjects, asked.subjects[1:], strict=False):
        between = asked.text[former.end : following.start].replace(",", " ").split()
        if not set(between) <= {"or", "and"} | _ARTICLES:
            return False
    return True


def _may_replace(words: FollowUpWords, names: list[Mark], asked: AskedBefore) -> bool:
    """Whether the last question can be asked of the names: they are of its subject's kind."""
    own = _kinds_of(words, names)
    kinds = asked.subjects[0].kinds
    if not words.has_lead and "measurement" in own and not _has_verb(asked):
        return False  # After "last A1c?", "LDL?" is a whole question too.
    if own & kinds or "allergy" in kinds:
        return True
    return words.has_lead and ("other" in own or "other" in kinds)


def _has_verb(asked: AskedBefore) -> bool:
    return any(each.value == "auxiliary" for each in asked.clause.marks)


def _kinds_of(words: FollowUpWords, names: list[Mark]) -> frozenset[str]:
    tokens = words.clause.tokens
    start = tokens[names[0].start].start
    found: list[Subject] = [
        subject for subject in subjects_of(words.text, words.clause) if subject.start >= start
    ]
    kinds = (kind for subject in found for kind in subject.kinds)
    return frozenset(kinds) or frozenset({"other"})
