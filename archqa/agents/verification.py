"""Checks sentences that were chosen by a narrow margin. It can remove a sentence, never add one.

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
        """The ids of the removed sentences."""
        return frozenset(check.sentence_id for check in self.checks if not check.keep)

    def judgements(self) -> tuple[Judgement, ...]:
        """The checks as judgements."""
        judgements = []
        for check in self.checks:
            judgement = Judgement(
                sentence_id=check.sentence_id,
                label=Relevance.ESSENTIAL if check.keep else Relevance.NOT_RELEVANT,
                rationale=check.rationale,
            )
            judgements.append(judgement)
        return tuple(judgements)


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
        """Each sentence in doubt is checked once, and no other."""
        counts = Counter(check.sentence_id for check in output.checks)
        check_ids(counts, task.case, "You check")
        if set(counts) != set(task.doubtful) or max(counts.values()) > 1:
            raise Rejected(
                f"Check each of {join_ids(task.doubtful)} exactly once, and no other sentence."
            )

    def salvage(
        self, task: VerificationTask, output: VerificationChecks
    ) -> VerificationChecks | None:
        """The first check of each sentence in doubt; unchecked sentences stay."""
        by_id: dict[str, Check] = {}
        for check in output.checks:
            if check.sentence_id in task.doubtful:
                by_id.setdefault(check.sentence_id, check)
        if not by_id:
            return None
        return VerificationChecks(checks=tuple(by_id.values()))
