"""Which parts of a question ask for a judgement that neither a record nor a note is to make."""

from collections.abc import Sequence
from typing import NamedTuple

from archqa.agents.judgement_kinds import judgement_reasons
from archqa.asking.answer import Answer, Status
from archqa.asking.chart.question_parts import is_advice, is_bare, may_be_stated, reports
from archqa.asking.judgements import is_judgement

_NEVER_STATED = frozenset({"advice", "prediction", "risk", "amount", "quality", "effect", "safety"})
"""Kinds of judgements (`reasons.tsv`) that are declined, whatever a note says of the matter."""


class JudgedParts(NamedTuple):
    """The parts of a question that can be answered, and those that ask for a judgement."""

    askable: tuple[str, ...]
    judgements: tuple[str, ...]


def judged_parts(parts: Sequence[str], record_answer: Answer | None) -> JudgedParts:
    """Return which parts can be answered from notes.

    What somebody advised or wants can be, also what is allowed ("can he have it again?").
    """
    askable: list[str] = []
    judgements: list[str] = []
    for part in parts:
        follows_judgement = is_bare(part) and bool(judgements) and not askable
        if follows_judgement or _is_judgement(part, parts, record_answer):
            judgements.append(part)
        else:
            askable.append(part)
    return JudgedParts(tuple(askable), tuple(judgements))


def _is_judgement(part: str, parts: Sequence[str], record_answer: Answer | None) -> bool:
    if is_advice(part):
        return True
    if reports(part) or may_be_stated(part):
        return False
    if len(parts) == 1 and record_answer and record_answer.status is Status.DECLINED:
        return declined_kind(record_answer) in _NEVER_STATED
    return is_judgement(part)


def declined_kind(answer: Answer) -> str:
    """Return the kind of the judgement that an answer declines, "" for none that is known."""
    for kind, reason in judgement_reasons().items():
        if answer.message.startswith(reason):
            return kind
    return ""
