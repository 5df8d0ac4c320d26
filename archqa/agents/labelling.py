"""What agents that label sentences share: the labels of the two variants, and the checks of a
note's labels.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Self, TypeVar

from pydantic import Field

from archqa.agents.agent import Agent, CaseTask, Rejected, check_ids, join_ids
from archqa.core.answer import WORD_LIMIT
from archqa.core.judgement import Judgement, LabelScheme, Relevance
from archqa.core.value import FrozenModel
from archqa.llm.structured import HIDDEN_FROM_MODEL, AllowedValues, SentenceId

Output = TypeVar("Output", bound=FrozenModel)

_ALLOWED_LABELS: dict[LabelScheme, tuple[str, ...]] = {
    "binary": (Relevance.ESSENTIAL, Relevance.NOT_RELEVANT),
    "multiclass": tuple(Relevance),
}


class LabellingTask(CaseTask):
    """A case whose sentences are to be labelled."""

    labels: LabelScheme = "binary"
    word_limit: int = WORD_LIMIT

    @property
    def allowed_labels(self) -> tuple[str, ...]:
        """The labels of this variant."""
        return _ALLOWED_LABELS[self.labels]


class Verdict(FrozenModel):
    """A label for one sentence, after the reason for it."""

    rationale: str
    label: Annotated[Relevance, Field(json_schema_extra={"choices": "label"})]
    probability: Annotated[float | None, Field(ge=0, le=1, json_schema_extra=HIDDEN_FROM_MODEL)] = (
        None
    )

    @classmethod
    def from_judgement(cls, judgement: Judgement) -> Self:
        """The verdict that states this judgement."""
        fields = {name: getattr(judgement, name) for name in cls.model_fields}
        return cls(**fields)

    def judgement_of(self, sentence_id: str) -> Judgement:
        """The verdict as a judgement of this sentence."""
        return Judgement(
            sentence_id=sentence_id,
            label=self.label,
            rationale=self.rationale,
            probability=self.probability,
        )


class SentenceVerdict(Verdict):
    """A label for the sentence that is named."""

    sentence_id: SentenceId

    def as_judgement(self) -> Judgement:
        """The verdict as a judgement of its sentence."""
        return self.judgement_of(self.sentence_id)


class Verdicts(FrozenModel):
    """Labels for many sentences at once."""

    verdicts: tuple[SentenceVerdict, ...]

    def judgements(self) -> tuple[Judgement, ...]:
        """The verdicts as judgements."""
        return tuple(verdict.as_judgement() for verdict in self.verdicts)


Task = TypeVar("Task", bound=LabellingTask)


class LabellingAgent(Agent[Task, Output]):
    """An agent that labels sentences in the variant its task names."""

    def choices(self, task: Task) -> AllowedValues:
        """The note's ids, and the variant's labels."""
        return {**super().choices(task), "label": task.allowed_labels}


def check_label(task: LabellingTask, output: Verdict) -> None:
    """Check that the label is one of the variant's."""
    if output.label not in task.allowed_labels:
        allowed = ", ".join(task.allowed_labels)
        raise Rejected(f"The label {output.label} is not asked for; use one of: {allowed}.")


def check_verdicts(
    task: LabellingTask,
    verdicts: tuple[SentenceVerdict, ...],
    requested_ids: tuple[str, ...],
) -> None:
    """Check that each requested sentence is labelled once, no other is, and every label is the
    variant's.
    """
    for verdict in verdicts:
        check_label(task, verdict)
    counts = Counter(verdict.sentence_id for verdict in verdicts)
    check_ids(counts, task.case, "You label")
    mistakes = []
    for accusation, ids in _miscounted(counts, requested_ids).items():
        if ids:
            mistakes.append(f"{accusation} {join_ids(ids)}.")
    if mistakes:
        mistakes.append(f"Label each of {join_ids(requested_ids)} exactly once.")
        raise Rejected(" ".join(mistakes))


def check_corrections(
    task: LabellingTask, verdicts: tuple[SentenceVerdict, ...], required_ids: tuple[str, ...]
) -> None:
    """Check that no sentence is labelled twice, that the required ones are labelled, and every
    label is the variant's.
    """
    labelled_ids = [verdict.sentence_id for verdict in verdicts]
    requested_ids = tuple(dict.fromkeys((*required_ids, *labelled_ids)))
    check_verdicts(task, verdicts, requested_ids)


def _miscounted(counts: Mapping[str, int], requested_ids: tuple[str, ...]) -> dict[str, list[str]]:
    """Accusation to the ids it is about."""
    return {
        "You left out": [id_ for id_ in requested_ids if id_ not in counts],
        "You label more than once": sorted(id_ for id_, count in counts.items() if count > 1),
        "You were not asked about": sorted(set(counts) - set(requested_ids)),
    }


def first_verdicts(output: Verdicts, requested_ids: tuple[str, ...]) -> Verdicts | None:
    """The first verdict on each requested sentence; None if there is none."""
    by_id: dict[str, SentenceVerdict] = {}
    for verdict in output.verdicts:
        if verdict.sentence_id in requested_ids:
            by_id.setdefault(verdict.sentence_id, verdict)
    if not by_id:
        return None
    return Verdicts(verdicts=tuple(by_id.values()))
