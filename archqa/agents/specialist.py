"""Stage 4 of 6: a specialist looks at the labels from the view of the field (paper §3.2,
Domain-Specific).

The paper's specialists label every sentence anew. Here they are shown the general expert's labels
and state only what they would change, which costs a fraction of the tokens. A reply that labels
every sentence is accepted as well.
"""

from collections.abc import Iterable, Mapping
from typing import Self

from archqa.agents.labelling import (
    LabellingAgent,
    LabellingTask,
    Verdicts,
    check_corrections,
    first_verdicts,
)
from archqa.core.case import Case
from archqa.core.judgement import Judgement


class SpecialistTask(LabellingTask):
    """The case, the labels it has already, and the specialty it is to be seen from."""

    specialty: str
    judgements: dict[str, tuple[Judgement, ...]] = {}
    unjudged: tuple[str, ...] = ()
    """The sentences that nobody has judged: the specialist must."""

    @classmethod
    def from_labels(
        cls, task: LabellingTask, specialty: str, judgements: Mapping[str, tuple[Judgement, ...]]
    ) -> Self:
        """The task of a specialist on a case that others have judged."""
        ids = task.case.sentence_ids
        of_case = {
            name: tuple(each for each in labels if each.sentence_id in ids)
            for name, labels in judgements.items()
        }
        judged = {each.sentence_id for labels in of_case.values() for each in labels}
        unjudged = tuple(sentence_id for sentence_id in ids if sentence_id not in judged)
        return cls(**dict(task), specialty=specialty, judgements=of_case, unjudged=unjudged)

    def of_part(self, case: Case) -> Self:
        """The same task on a part of the case."""
        labelling = LabellingTask(
            case=case, context=self.context, labels=self.labels, word_limit=self.word_limit
        )
        return self.from_labels(labelling, self.specialty, self.judgements)

    def corrected(self, stated: Iterable[Judgement]) -> tuple[Judgement, ...]:
        """The labels that the specialist stated, and of other sentences those it was shown: it
        agrees with them, in its own name and without a reason.
        """
        by_id: dict[str, Judgement] = {}
        for labels in self.judgements.values():
            for each in labels:
                by_id.setdefault(each.sentence_id, each.model_copy(update={"rationale": ""}))
        by_id.update((each.sentence_id, each) for each in stated)
        return tuple(by_id[id_] for id_ in self.case.sentence_ids if id_ in by_id)


class SpecialistAgent(LabellingAgent[SpecialistTask, Verdicts]):
    """Corrects the labels of a note, and labels what has none, in one call."""

    name = "specialist"
    prompt = "specialist/v2"
    task_type = SpecialistTask
    output_type = Verdicts

    def check(self, task: SpecialistTask, output: Verdicts) -> None:
        """No sentence is labelled twice, and each without a label is labelled."""
        check_corrections(task, output.verdicts, task.unjudged)

    def salvage(self, task: SpecialistTask, output: Verdicts) -> Verdicts | None:
        """The first label of each sentence of the note."""
        return first_verdicts(output, task.case.sentence_ids)

    def call_label(self, task: SpecialistTask) -> str:
        """The specialty."""
        return task.specialty
