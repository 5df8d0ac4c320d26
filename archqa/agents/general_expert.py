"""Stage 2 of 6: a generalist labels each sentence by itself (paper §3.2, General Medical Expert)."""

from archqa.agents.labelling import (
    LabellingAgent,
    LabellingTask,
    Verdict,
    Verdicts,
    check_label,
    check_verdicts,
    first_verdicts,
)
from archqa.core.case import Sentence


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
        check_label(task, output)

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
