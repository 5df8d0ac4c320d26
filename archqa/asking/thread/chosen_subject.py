"""Which thing of the last question or answer a follow-up is about."""

from collections.abc import Iterable
from typing import NamedTuple

from archqa.asking.thread.phrases import templates
from archqa.asking.thread.subjects import AskedBefore, Subject, subjects_of_answer

_ANY = "-"


class SeveralSubjects(NamedTuple):
    """The names of the things that may be meant."""

    names: tuple[str, ...]


class ChosenSubject(NamedTuple):
    """The subject and the standalone question about it; None if there is no such question."""

    subject: Subject
    question: str | None


Chosen = ChosenSubject | SeveralSubjects | None


def choose_template_subject(
    asked: AskedBefore, attribute: str, item: int, *, relative: str = ""
) -> Chosen:
    """Return the subject of a part that is asked for, with the question of its template."""
    kinds = frozenset(kind for name, kind in templates() if name == attribute)
    chosen = choose_subject(asked, kinds - {_ANY}, item, is_strict=_ANY not in kinds)
    if chosen is None or isinstance(chosen, SeveralSubjects):
        return chosen
    if relative and chosen.kinds != {"condition"}:  # A relative's values are in no record.
        return None
    return ChosenSubject(chosen, _question(attribute, chosen, relative))


def choose_subject(
    asked: AskedBefore, kinds: frozenset[str], item: int = 0, *, is_strict: bool = False
) -> Subject | SeveralSubjects | None:
    """Return the one thing that is meant: a line by its number, else of the question, else of the
    answer.

    Things of `kinds` come first; if `is_strict`, no others are meant. None if there is none.
    """
    if item:
        items = asked.items
        return items[item - 1] if item <= len(items) else None
    found = _of_kinds(asked.subjects, kinds)
    if any(subject.is_class for subject in found):
        return _member(asked, found)
    if found:
        return _only(asked, found)
    named = subjects_of_answer(asked, kinds or _all_kinds())
    if named:
        return _one_or_several(named)
    return None if is_strict else _only(asked, asked.subjects)


def _of_kinds(subjects: Iterable[Subject], kinds: frozenset[str]) -> tuple[Subject, ...]:
    return tuple(subject for subject in subjects if not kinds or subject.kinds & kinds)


def _member(asked: AskedBefore, found: tuple[Subject, ...]) -> Subject | SeveralSubjects:
    """Of a class of drugs, the drug that the answer names."""
    named = subjects_of_answer(asked, {"drug"})
    if len(named) == 1 and found[0].name.lower() not in named[0].name.lower():
        return named[0]
    return _one_or_several(named) if len(named) > 1 else found[0]


def _only(asked: AskedBefore, subjects: tuple[Subject, ...]) -> Subject | SeveralSubjects | None:
    """The one subject; of several, the one that the answer tells of."""
    if len(subjects) < 2:
        return subjects[0] if subjects else None
    answer = " ".join(line.text for line in asked.turn.lines).lower()
    told = tuple(subject for subject in subjects if subject.name.lower() in answer)
    return told[0] if len(told) == 1 else _one_or_several(subjects)


def _one_or_several(subjects: tuple[Subject, ...]) -> Subject | SeveralSubjects:
    if len(subjects) == 1:
        return subjects[0]
    return SeveralSubjects(tuple(subject.name for subject in subjects))


def _question(attribute: str, subject: Subject, relative: str) -> str | None:
    known = templates()
    for kind in (*sorted(subject.kinds), _ANY):
        template = known.get((attribute, kind))
        if template:
            return template.format(
                subject=subject.phrase, name=subject.noun, which=subject.which, relative=relative
            )
    return None


def _all_kinds() -> frozenset[str]:
    return frozenset(kind for _, kind in templates() if kind != _ANY)
