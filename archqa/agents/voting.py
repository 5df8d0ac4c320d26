"""The panel's judges: they label every sentence of a note at once and say how sure they are. A label becomes a vote.

How sure: what the judge states in percent, and what the server's token probabilities say of the label, where it gives
them; their mean in log-odds.
"""

from typing import Annotated

from pydantic import Field

from archqa.agents.agent import join_ids
from archqa.agents.exemplars import Exemplar
from archqa.agents.labelling import (
    LabellingAgent,
    LabellingTask,
    SentenceVerdict,
    Verdicts,
    check_verdicts,
)
from archqa.core.judgement import Judgement, Relevance
from archqa.core.probability import pool
from archqa.llm.likelihood import label_probabilities
from archqa.llm.model import Reply


class VotingTask(LabellingTask):
    """A note whose sentences are voted on, by a specialist if a specialty is named.

    `repetition` tells a second asking of the same from the first.
    """

    specialty: str = ""
    exemplars: tuple[Exemplar, ...] = ()
    repetition: int = 0


class SentenceVote(SentenceVerdict):
    """A label and how sure it is; `probability` is filled in from the server's token probabilities."""

    percent: Annotated[
        int, Field(ge=0, le=100, description="chance in percent that the sentence is essential")
    ]

    def as_judgement(self) -> Judgement:
        """The vote as a value of the field."""
        stated = self.percent / 100
        probability = stated if self.probability is None else pool([stated, self.probability])
        return Judgement(
            sentence_id=self.sentence_id,
            label=self.label,
            rationale=self.rationale,
            probability=probability,
        )


class SentenceVotes(Verdicts):
    """Votes on many sentences."""

    verdicts: tuple[SentenceVote, ...]


class VotingAgent(LabellingAgent[VotingTask, SentenceVotes]):
    """Votes on all sentences in one call."""

    returns = SentenceVotes
    takes = VotingTask
    likelihoods = True

    def check(self, task: VotingTask, output: SentenceVotes) -> None:
        """Every sentence of the note once."""
        check_verdicts(task, output, task.case.sentence_ids)

    def mend(self, task: VotingTask, output: SentenceVotes) -> SentenceVotes | None:
        """Keep the votes that are usable; the others are missing."""
        first: dict[str, SentenceVote] = {}
        for each in output.verdicts:
            if each.sentence_id in task.case.sentence_ids and each.label in task.allowed_labels:
                first.setdefault(each.sentence_id, each)
        return SentenceVotes(verdicts=tuple(first.values())) if first else None

    def weigh(self, task: VotingTask, output: SentenceVotes, reply: Reply) -> SentenceVotes:
        """The same votes with what the token probabilities say of each label, where the server gave them."""
        found = label_probabilities(reply, "label", [str(each) for each in task.allowed_labels])
        if len(found) != len(output.verdicts):
            return output
        rows = zip(output.verdicts, found, strict=True)
        return SentenceVotes(verdicts=tuple(_weighed(vote, said) for vote, said in rows))

    def about(self, task: VotingTask) -> str:
        """The specialty, and which asking it is."""
        return join_ids(
            each
            for each in (task.specialty, f"again {task.repetition}" * bool(task.repetition))
            if each
        )


class GeneralVotingAgent(VotingAgent):
    """A generalist, with the whole note in view."""

    name = "general_expert"
    prompt = "general_vote/v1"


class SpecialistVotingAgent(VotingAgent):
    """A specialist of the field the task names."""

    name = "specialist"
    prompt = "specialist_vote/v1"


def _weighed(vote: SentenceVote, said: dict[str, float] | None) -> SentenceVote:
    return (
        vote
        if said is None
        else vote.model_copy(update={"probability": said.get(Relevance.ESSENTIAL, 0.0)})
    )
