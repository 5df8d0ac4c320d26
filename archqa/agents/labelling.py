"""What agents that label sentences share: the labels of the two variants, and the checks of a note's labels."""

from collections import Counter
from typing import Annotated, TypeVar

from pydantic import Field

from archqa.agents.agent import Agent, CaseTask, Rejected, check_ids, join_ids
from archqa.core.judgement import Judgement, LabelScheme, Relevance
from archqa.core.value import FrozenModel
from archqa.llm.structured import HIDDEN_FROM_MODEL, AllowedValues, SentenceId

Output = TypeVar("Output", bound=FrozenModel)

_ALLOWED: dict[LabelScheme, tuple[str, ...]] = {
    "binary": (Relevance.ESSENTIAL, Relevance.NOT_RELEVANT),
    "multiclass": tuple(Relevance),
}


class LabellingTask(CaseTask):
    """A case whose sentences are to be labelled."""

    labels: LabelScheme = "binary"

    @property
    def allowed_labels(self) -> tuple[str, ...]:
        """The labels of this variant."""
        return _ALLOWED[self.labels]


class Verdict(FrozenModel):
    """A label for one sentence; the reason comes first, so that it is thought of first."""

    rationale: str
    label: Annotated[Relevance, Field(json_schema_extra={"choices": "label"})]
    probability: Annotated[float | None, Field(ge=0, le=1, json_schema_extra=HIDDEN_FROM_MODEL)] = (
        None
    )


class SentenceVerdict(Verdict):
    """A label for the sentence that is named."""

    sentence_id: SentenceId

    def as_judgement(self) -> Judgement:
        """The same, as a value of the field."""
        return Judgement.model_validate(self.model_dump())


class Verdicts(FrozenModel):
    """Labels for many sentences at once."""

    verdicts: tuple[SentenceVerdict, ...]

    def judgements(self) -> tuple[Judgement, ...]:
        """The same, as values of the field."""
        return tuple(each.as_judgement() for each in self.verdicts)


Task = TypeVar("Task", bound=LabellingTask)


class LabellingAgent(Agent[Task, Output]):
    """An agent that labels sentences in the variant its task names."""

    def choices(self, task: Task) -> AllowedValues:
        """The note's ids, and the variant's labels."""
        return {**super().choices(task), "label": task.allowed_labels}


def check_label(task: LabellingTask, output: Verdict) -> None:
    """The label is one of the variant's."""
    if output.label not in task.allowed_labels:
        raise Rejected(
            f"The label {output.label} is not asked for; use one of: {', '.join(task.allowed_labels)}."
        )


def check_verdicts(task: LabellingTask, output: Verdicts, wanted: tuple[str, ...]) -> None:
    """Every wanted sentence once, none other, each with a label of the variant."""
    for each in output.verdicts:
        check_label(task, each)
    counts = Counter(each.sentence_id for each in output.verdicts)
    check_ids(counts, task.case, "You label")
    missing = [each for each in wanted if each not in counts]
    twice = sorted(each for each, count in counts.items() if count > 1)
    beyond = sorted(set(counts) - set(wanted))
    wrongs = [
        ("You left out", missing),
        ("You label more than once", twice),
        ("You were not asked about", beyond),
    ]
    said = [f"{words} {join_ids(ids)}." for words, ids in wrongs if ids]
    if said:
        raise Rejected(" ".join([*said, f"Label each of {join_ids(wanted)} exactly once."]))


def usable_verdicts(output: Verdicts, wanted: tuple[str, ...]) -> Verdicts | None:
    """The first verdict for each wanted sentence; None if there is not one."""
    first: dict[str, SentenceVerdict] = {}
    for each in output.verdicts:
        if each.sentence_id in wanted:
            first.setdefault(each.sentence_id, each)
    return Verdicts(verdicts=tuple(first.values())) if first else None
