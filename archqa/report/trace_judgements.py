"""The judgements in the outputs of a stage, as a table: one row a sentence, one column a role."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from archqa.core.step import Step
from archqa.report.page import shorten

_MAX_ROWS = 200
_MAX_EXCERPT_LENGTH = 90

Excerpts = Mapping[str, str]
"""Sentence id to its text; empty where texts are not shown."""


class StatedLabel(NamedTuple):
    """What one role said of one sentence; an empty label where it said nothing."""

    label: str = ""
    probability: float | None = None


class JudgementRow(NamedTuple):
    """One sentence, with the label that each role gave it."""

    sentence_id: str
    excerpt: str
    cells: tuple[StatedLabel, ...]


class JudgementTable(NamedTuple):
    """The judgements of all roles; `omitted` sentences are only in the file of the trace."""

    roles: tuple[str, ...]
    rows: tuple[JudgementRow, ...]
    omitted: int


class _Stated(NamedTuple):
    role: str
    sentence_id: str
    label: StatedLabel


def count_judgements(steps: Iterable[Step]) -> int:
    """Return how many labels these steps gave to sentences."""
    return sum(1 for step in steps for _ in _stated_labels(step))


def judgement_table(steps: Iterable[Step], excerpts: Excerpts) -> JudgementTable | None:
    """Return the labels that these steps gave to sentences; None if they gave none."""
    by_sentence: dict[str, dict[str, StatedLabel]] = {}
    roles: dict[str, None] = {}
    for step in steps:
        for role, sentence_id, label in _stated_labels(step):
            roles[role] = None
            by_sentence.setdefault(sentence_id, {})[role] = label
    if not by_sentence:
        return None
    rows = []
    for sentence_id, by_role in list(by_sentence.items())[:_MAX_ROWS]:
        cells = tuple(by_role.get(role, StatedLabel()) for role in roles)
        excerpt = shorten(excerpts.get(sentence_id, ""), _MAX_EXCERPT_LENGTH)
        rows.append(JudgementRow(sentence_id, excerpt, cells))
    return JudgementTable(tuple(roles), tuple(rows), len(by_sentence) - len(rows))


def has_judgements(step: Step) -> bool:
    """Whether the step gave a label to a sentence."""
    return any(True for _ in _stated_labels(step))


def _stated_labels(step: Step) -> Iterator[_Stated]:
    """Yield the labels of an output: of the one sentence that was asked about, or of several."""
    parsed = step.parsed or {}
    if "label" in parsed:
        yield _Stated("", step.about, _label(parsed))
        return
    verdicts = parsed.get("verdicts")
    if not isinstance(verdicts, list):
        return
    stated = [verdict for verdict in verdicts if isinstance(verdict, dict)]
    role = _role(step.about, stated)
    for verdict in stated:
        yield _Stated(role, str(verdict.get("sentence_id", "")), _label(verdict))


def _role(about: str, verdicts: list[dict[str, Any]]) -> str:
    """Return what the call is about if that is a role, and not the sentences that were asked."""
    asked = {part.strip() for part in about.split(",")}
    labelled = {str(verdict.get("sentence_id", "")) for verdict in verdicts}
    return "" if asked & labelled else about


def _label(verdict: Mapping[str, Any]) -> StatedLabel:
    probability = verdict.get("probability")
    if not isinstance(probability, int | float):
        probability = None
    return StatedLabel(str(verdict.get("label", "")), probability)
