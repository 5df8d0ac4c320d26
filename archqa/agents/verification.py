"""Judges the sentences whose choice was close, in view of the answer that was drafted from the chosen.

Source of the idea: the optional tightening pass of Yale at ArchEHR-QA 2026, which only removes.
"""

from collections import Counter

from archqa.agents.agent import Agent, CaseTask, Rejected, check_ids, join_ids
from archqa.core.answer import WORD_LIMIT, CitedAnswer
from archqa.core.judgement import Judgement, LabelScheme, Relevance
from archqa.core.value import FrozenModel
from archqa.llm.structured import AllowedValues, SentenceId


class VerificationTask(CaseTask):
    """The chosen sentences, the answer drafted from them, and the sentences in doubt: chosen ones
    and others.
    """

    chosen: tuple[str, ...]
    doubtful: tuple[str, ...]
    draft: CitedAnswer
    labels: LabelScheme = "binary"
    word_limit: int = WORD_LIMIT


class Check(FrozenModel):
    """Whether a sentence belongs to the evidence, after the reason for it."""

    rationale: str
    keep: bool
    sentence_id: SentenceId


class VerificationChecks(FrozenModel):
    """One check for each sentence in doubt."""

    checks: tuple[Check, ...]

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
    """Asks of each sentence in doubt whether the answer needs it."""

    name = "verification"
    prompt = "verification/v2"
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
        """The first check of each sentence in doubt; unchecked ones stay as they were chosen."""
        by_id: dict[str, Check] = {}
        for check in output.checks:
            if check.sentence_id in task.doubtful:
                by_id.setdefault(check.sentence_id, check)
        if not by_id:
            return None
        return VerificationChecks(checks=tuple(by_id.values()))
