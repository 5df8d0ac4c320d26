"""The panel's judges: they label every sentence of a note at once and state how sure they are; a
label becomes a vote.

How sure is the mean, in log-odds, of the percentage that the judge states and of what the server's
token probabilities say of the label, where the server gives them.
"""

from typing import Annotated, Self

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
from archqa.core.probability import pool, stated_probability
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
    """A label for the sentence that is named, and how sure it is."""

    percent: Annotated[
        int, Field(ge=0, le=100, description="chance in percent that the sentence is essential")
    ]

    @classmethod
    def from_judgement(cls, judgement: Judgement) -> Self:
        """The vote that states this judgement."""
        return cls(
            sentence_id=judgement.sentence_id,
            label=judgement.label,
            rationale=judgement.rationale,
            probability=judgement.probability,
            percent=round(100 * stated_probability(judgement)),
        )

    def as_judgement(self) -> Judgement:
        """The vote as a judgement; its probability pools the stated percentage and the token
        probability.
        """
        stated = self.percent / 100
        probability = stated if self.probability is None else pool([stated, self.probability])
        return super().as_judgement().model_copy(update={"probability": probability})


class SentenceVotes(Verdicts):
    """Votes on many sentences."""

    verdicts: tuple[SentenceVote, ...]


class VotingAgent(LabellingAgent[VotingTask, SentenceVotes]):
    """Votes on all sentences in one call."""

    task_type = VotingTask
    output_type = SentenceVotes
    wants_logprobs = True

    def check(self, task: VotingTask, output: SentenceVotes) -> None:
        """Every sentence of the note once."""
        check_verdicts(task, output.verdicts, task.case.sentence_ids)

    def salvage(self, task: VotingTask, output: SentenceVotes) -> SentenceVotes | None:
        """The first valid vote on each sentence; other votes are missing."""
        by_id: dict[str, SentenceVote] = {}
        for vote in output.verdicts:
            if vote.sentence_id in task.case.sentence_ids and vote.label in task.allowed_labels:
                by_id.setdefault(vote.sentence_id, vote)
        return SentenceVotes(verdicts=tuple(by_id.values())) if by_id else None

    def apply_logprobs(
        self,
        task: VotingTask,
        output: SentenceVotes,
        reply: Reply,
    ) -> SentenceVotes:
        """The same votes with the token probability of each label, where the server gave them."""
        labels = [str(label) for label in task.allowed_labels]
        probabilities = label_probabilities(reply, "label", labels)
        if len(probabilities) != len(output.verdicts):
            return output
        votes = tuple(map(_with_token_probability, output.verdicts, probabilities))
        return SentenceVotes(verdicts=votes)

    def call_label(self, task: VotingTask) -> str:
        """The specialty, and the number of the repetition."""
        parts = [task.specialty] if task.specialty else []
        if task.repetition:
            parts.append(f"again {task.repetition}")
        return join_ids(parts)


class GeneralVotingAgent(VotingAgent):
    """A generalist, with the whole note in view."""

    name = "general_expert"
    prompt = "general_vote/v2"


class SpecialistVotingAgent(VotingAgent):
    """A specialist of the field the task names."""

    name = "specialist"
    prompt = "specialist_vote/v1"


def _with_token_probability(
    vote: SentenceVote, probabilities: dict[str, float] | None
) -> SentenceVote:
    if probabilities is None:
        return vote
    return vote.model_copy(update={"probability": probabilities.get(Relevance.ESSENTIAL, 0.0)})
