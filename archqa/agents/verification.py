"""A second look at what was chosen by a narrow margin. It can only take away, never add.

Source of the idea: the optional tightening pass of Yale at ArchEHR-QA 2026.
"""

from collections import Counter

from archqa.agents.agent import Agent, CaseTask, Rejected, check_ids, join_ids
from archqa.core.judgement import Judgement, Relevance
from archqa.core.value import FrozenModel
from archqa.llm.structured import AllowedValues, SentenceId


class VerificationTask(CaseTask):
    """The chosen sentences, and those of them that are in doubt."""

    chosen: tuple[str, ...]
    doubtful: tuple[str, ...]


class Check(FrozenModel):
    """Whether a chosen sentence stays, and why; the reason comes first, so that it is thought of first."""

    rationale: str
    keep: bool
    sentence_id: SentenceId


class VerificationChecks(FrozenModel):
    """One check for each sentence in doubt."""

    checks: tuple[Check, ...]

    @property
    def removed(self) -> frozenset[str]:
        """What is taken away."""
        return frozenset(each.sentence_id for each in self.checks if not each.keep)

    def judgements(self) -> tuple[Judgement, ...]:
        """The checks as labels, for the record."""
        return tuple(
            Judgement(
                sentence_id=each.sentence_id,
                label=Relevance.ESSENTIAL if each.keep else Relevance.NOT_RELEVANT,
                rationale=each.rationale,
            )
            for each in self.checks
        )


class VerificationAgent(Agent[VerificationTask, VerificationChecks]):
    """Asks of each doubtful sentence whether the answer is worse without it."""

    name = "verification"
    prompt = "verification/v1"
    task_type = VerificationTask
    output_type = VerificationChecks

    def choices(self, task: VerificationTask) -> AllowedValues:
        """Only the sentences in doubt."""
        return {"sentence": task.doubtful}

    def check(self, task: VerificationTask, output: VerificationChecks) -> None:
        """Each sentence in doubt once, and no other."""
        counts = Counter(each.sentence_id for each in output.checks)
        check_ids(counts, task.case, "You check")
        if set(counts) != set(task.doubtful) or max(counts.values()) > 1:
            raise Rejected(
                f"Check each of {join_ids(task.doubtful)} exactly once, and no other sentence."
            )

    def salvage(
        self, task: VerificationTask, output: VerificationChecks
    ) -> VerificationChecks | None:
        """The first check of each sentence in doubt; those that were not checked stay."""
        first: dict[str, Check] = {}
        for each in output.checks:
            if each.sentence_id in task.doubtful:
                first.setdefault(each.sentence_id, each)
        return VerificationChecks(checks=tuple(first.values())) if first else None
