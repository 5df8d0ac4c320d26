"""The panel's judges: they label every sentence of a note at once and say how sure they are. A label becomes a vote.

How sure: what the judge states in percent, and what the server's token probabilities say of the label, where it gives
them; their mean in log-odds.
"""

from typing import Annotated

from pydantic import Field

from archqa.agents.base import mentioned
from archqa.agents.exemplars import Exemplar
from archqa.agents.judging import JudgingAgent, JudgingTask, SentenceVerdict, Verdicts, check_verdicts
from archqa.core.judgement import Judgement, Relevance
from archqa.evidence.combining import pooled
from archqa.llm.base import Reply
from archqa.llm.likelihood import choice_probabilities


class VotingTask(JudgingTask):
    """A note whose sentences are voted on, by a specialist if a specialty is named.

    `repetition` tells a second asking of the same from the first.
    """

    specialty: str = ""
    exemplars: tuple[Exemplar, ...] = ()
    repetition: int = 0


class SentenceVote(SentenceVerdict):
    """A label and how sure it is; `probability` is filled in from the server's token probabilities."""

    percent: Annotated[int, Field(ge=0, le=100, description="chance in percent that the sentence is essential")]

    def as_judgement(self) -> Judgement:
        """The vote as a value of the field."""
        stated = self.percent / 100
        probability = stated if self.probability is None else pooled([stated, self.probability])
        return Judgement(
            sentence_id=self.sentence_id, label=self.label, rationale=self.rationale, probability=probability
        )


class Votes(Verdicts):
    """Votes on many sentences."""

    verdicts: tuple[SentenceVote, ...]


class VotingAgent(JudgingAgent[VotingTask, Votes]):
    """Votes on all sentences in one call."""

    returns = Votes
    takes = VotingTask
    likelihoods = True

    def check(self, task: VotingTask, output: Votes) -> None:
        """Every sentence of the note once."""
        check_verdicts(task, output, task.case.sentence_ids)

    def mend(self, task: VotingTask, output: Votes) -> Votes | None:
        """Keep the votes that are usable; the others are missing."""
        first: dict[str, SentenceVote] = {}
        for each in output.verdicts:
            if each.sentence_id in task.case.sentence_ids and each.label in task.allowed:
                first.setdefault(each.sentence_id, each)
        return Votes(verdicts=tuple(first.values())) if first else None

    def weigh(self, task: VotingTask, output: Votes, reply: Reply) -> Votes:
        """The same votes with what the token probabilities say of each label, where the server gave them."""
        found = choice_probabilities(reply, "label", [str(each) for each in task.allowed])
        if len(found) != len(output.verdicts):
            return output
        rows = zip(output.verdicts, found, strict=True)
        return Votes(verdicts=tuple(_weighed(vote, said) for vote, said in rows))

    def about(self, task: VotingTask) -> str:
        """The specialty, and which asking it is."""
        return mentioned(each for each in (task.specialty, f"again {task.repetition}" * bool(task.repetition)) if each)


class GeneralVote(VotingAgent):
    """A generalist, with the whole note in view."""

    name = "general_expert"
    prompt = "general_vote/v1"


class SpecialistVote(VotingAgent):
    """A specialist of the field the task names."""

    name = "specialist"
    prompt = "specialist_vote/v1"


def _weighed(vote: SentenceVote, said: dict[str, float] | None) -> SentenceVote:
    return vote if said is None else vote.model_copy(update={"probability": said.get(Relevance.ESSENTIAL, 0.0)})
