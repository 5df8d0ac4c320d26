"""The agents that label the sentences of a note: stages 2 and 4 of 6 (paper §3.2).

The general expert labels each sentence by itself, or several in one call (General Medical Expert).
A specialist looks at the labels from the view of its field (Domain-Specific). The paper's
specialists label every sentence anew. Here they are shown the general expert's labels and state
only what they would change, which costs a fraction of the tokens. A reply that labels every
sentence is accepted as well.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Self, TypeVar

from pydantic import Field

from archqa.agents.agent import (
    Agent,
    CaseTask,
    Output,
    invented_ids,
    join_ids,
    reject_all,
)
from archqa.core.answer import WORD_LIMIT
from archqa.core.case import Case, Sentence
from archqa.core.judgement import Judgement, LabelScheme, Relevance
from archqa.core.value import FrozenModel
from archqa.llm.structured import HIDDEN_FROM_MODEL, AllowedValues, SentenceId

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
    probability: Annotated[
        float | None, Field(ge=0, le=1, json_schema_extra=HIDDEN_FROM_MODEL)
    ] = None

    @classmethod
    def from_judgement(cls, judgement: Judgement) -> Self:
        """The verdict that states this judgement."""
        return cls(**{name: getattr(judgement, name) for name in cls.model_fields})

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


class Verdicts(FrozenModel):
    """Labels for many sentences at once."""

    verdicts: tuple[SentenceVerdict, ...]

    def judgements(self) -> tuple[Judgement, ...]:
        """The verdicts as judgements."""
        return tuple(
            verdict.judgement_of(verdict.sentence_id) for verdict in self.verdicts
        )


Task = TypeVar("Task", bound=LabellingTask)


class LabellingAgent(Agent[Task, Output]):
    """An agent that labels sentences in the variant its task names."""

    def choices(self, task: Task) -> AllowedValues:
        """The note's ids, and the variant's labels."""
        return {**super().choices(task), "label": task.allowed_labels}


def label_problem(task: LabellingTask, output: Verdict) -> str:
    """What is wrong with a label that is none of the variant's."""
    if output.label in task.allowed_labels:
        return ""
    allowed = ", ".join(task.allowed_labels)
    return f"The label {output.label} is not asked for; use one of: {allowed}."


def check_verdicts(
    task: LabellingTask,
    verdicts: tuple[SentenceVerdict, ...],
    requested_ids: tuple[str, ...],
) -> None:
    """Check that each requested sentence is labelled once, no other is, and every label is the
    variant's.
    """
    problems = [label_problem(task, verdict) for verdict in verdicts]
    counts = Counter(verdict.sentence_id for verdict in verdicts)
    invented = invented_ids(counts, task.case, "You label")
    known = set(counts) & set(task.case.sentence_ids)
    miscounted = {
        "You left out": [id_ for id_ in requested_ids if id_ not in counts],
        "You label more than once": sorted(
            id_ for id_, count in counts.items() if count > 1
        ),
        "You were not asked about": sorted(known - set(requested_ids)),
    }
    mistakes = []
    for accusation, ids in miscounted.items():
        if ids:
            mistakes.append(f"{accusation} {join_ids(ids)}.")
    if mistakes:
        mistakes.append(f"Label each of {join_ids(requested_ids)} exactly once.")
    reject_all(*dict.fromkeys(problems), invented, " ".join(mistakes))


def first_verdicts(output: Verdicts, requested_ids: tuple[str, ...]) -> Verdicts | None:
    """The first verdict on each requested sentence; None if there is none."""
    by_id: dict[str, SentenceVerdict] = {}
    for verdict in output.verdicts:
        if verdict.sentence_id in requested_ids:
            by_id.setdefault(verdict.sentence_id, verdict)
    if not by_id:
        return None
    return Verdicts(verdicts=tuple(by_id.values()))


class SentenceLabellingTask(LabellingTask):
    """One sentence of the case to be labelled."""

    sentence: Sentence


class GeneralExpertAgent(LabellingAgent[SentenceLabellingTask, Verdict]):
    """Labels one sentence with the whole note in view."""

    name = "general_expert"
    prompt = "general_expert/v2"
    task_type = SentenceLabellingTask
    output_type = Verdict

    def check(self, task: SentenceLabellingTask, output: Verdict) -> None:
        """The label is one of the variant's."""
        reject_all(label_problem(task, output))

    def call_label(self, task: SentenceLabellingTask) -> str:
        """The sentence's id."""
        return task.sentence.id


class BatchLabellingTask(LabellingTask):
    """Several sentences of the case to be labelled in one call."""

    sentences: tuple[Sentence, ...]

    @property
    def requested_ids(self) -> tuple[str, ...]:
        """The ids of the sentences."""
        return tuple(sentence.id for sentence in self.sentences)


class GeneralExpertBatchAgent(LabellingAgent[BatchLabellingTask, Verdicts]):
    """Labels several sentences in one call: cheaper, and less independent, than one by one."""

    name = "general_expert"
    prompt = "general_expert_batch/v2"
    task_type = BatchLabellingTask
    output_type = Verdicts

    def choices(self, task: BatchLabellingTask) -> dict[str, tuple[str, ...]]:
        """Only the sentences of this batch."""
        return {"sentence": task.requested_ids, "label": task.allowed_labels}

    def check(self, task: BatchLabellingTask, output: Verdicts) -> None:
        """Every sentence of the batch is labelled once."""
        check_verdicts(task, output.verdicts, task.requested_ids)

    def salvage(self, task: BatchLabellingTask, output: Verdicts) -> Verdicts | None:
        """The first label of each sentence; other labels are missing."""
        return first_verdicts(output, task.requested_ids)

    def call_label(self, task: BatchLabellingTask) -> str:
        """The ids of the sentences."""
        return ",".join(task.requested_ids)


class SpecialistTask(LabellingTask):
    """The case, the labels it has already, and the specialty it is to be seen from."""

    specialty: str
    judgements: dict[str, tuple[Judgement, ...]] = {}
    unjudged: tuple[str, ...] = ()
    """The sentences that nobody has judged: the specialist must."""

    @classmethod
    def from_labels(
        cls,
        task: LabellingTask,
        specialty: str,
        judgements: Mapping[str, tuple[Judgement, ...]],
    ) -> Self:
        """The task of a specialist on a case that others have judged."""
        ids = task.case.sentence_ids
        of_case: dict[str, tuple[Judgement, ...]] = {}
        judged: set[str] = set()
        for name, labels in judgements.items():
            part = [label for label in labels if label.sentence_id in ids]
            of_case[name] = tuple(part)
            judged.update(label.sentence_id for label in part)
        unjudged = tuple(
            sentence_id for sentence_id in ids if sentence_id not in judged
        )
        return cls(
            **dict(task), specialty=specialty, judgements=of_case, unjudged=unjudged
        )

    def of_part(self, case: Case) -> Self:
        """The same task on a part of the case."""
        labelling = LabellingTask(
            case=case,
            context=self.context,
            labels=self.labels,
            word_limit=self.word_limit,
        )
        return self.from_labels(labelling, self.specialty, self.judgements)

    def corrected(self, stated: Iterable[Judgement]) -> tuple[Judgement, ...]:
        """The labels that the specialist stated, and of other sentences those it was shown: it
        agrees with them, in its own name and without a reason.
        """
        by_id: dict[str, Judgement] = {}
        for labels in self.judgements.values():
            for label in labels:
                by_id.setdefault(
                    label.sentence_id, label.model_copy(update={"rationale": ""})
                )
        for label in stated:
            by_id[label.sentence_id] = label
        return tuple(by_id[id_] for id_ in self.case.sentence_ids if id_ in by_id)


class SpecialistAgent(LabellingAgent[SpecialistTask, Verdicts]):
    """Corrects the labels of a note, and labels what has none, in one call."""

    name = "specialist"
    prompt = "specialist/v3"
    task_type = SpecialistTask
    output_type = Verdicts

    def check(self, task: SpecialistTask, output: Verdicts) -> None:
        """No sentence is labelled twice, and each without a label is labelled."""
        labelled_ids = [verdict.sentence_id for verdict in output.verdicts]
        requested_ids = tuple(dict.fromkeys((*task.unjudged, *labelled_ids)))
        check_verdicts(task, output.verdicts, requested_ids)

    def salvage(self, task: SpecialistTask, output: Verdicts) -> Verdicts | None:
        """The first label of each sentence of the note."""
        return first_verdicts(output, task.case.sentence_ids)

    def call_label(self, task: SpecialistTask) -> str:
        """The specialty."""
        return task.specialty
