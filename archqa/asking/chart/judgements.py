"""Which parts of a question ask for a judgement that neither a record nor a note is to make."""

from collections.abc import Sequence
from typing import NamedTuple

from archqa.asking.answer import Answer, Status
from archqa.asking.chart.question_parts import is_advice, is_bare, may_be_stated, reports
from archqa.asking.question_form import is_judgement


class JudgedParts(NamedTuple):
    """The parts of a question that can be answered, and those that ask for a judgement."""

    askable: tuple[str, ...]
    judgements: tuple[str, ...]


def judged_parts(parts: Sequence[str]) -> JudgedParts:
    """Return which parts can be answered from notes.

    What somebody advised or wants can be, also what is allowed ("can he have it again?").
    """
    askable: list[str] = []
    judgements: list[str] = []
    for part in parts:
        follows_judgement = is_bare(part) and bool(judgements) and not askable
        if follows_judgement or _is_judgement(part):
            judgements.append(part)
        else:
            askable.append(part)
    return JudgedParts(tuple(askable), tuple(judgements))


def _is_judgement(part: str) -> bool:
    if is_advice(part):
        return True
    return is_judgement(part) and not (reports(part) or may_be_stated(part))


def declines_to_judge(answer: Answer) -> bool:
    """Whether the resources' answer declines a judgement, not what only notes could tell."""
    return answer.status is Status.DECLINED and answer.ground != "notes"
