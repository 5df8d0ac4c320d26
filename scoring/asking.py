"""The scores of `archqa evaluate ask`: questions of people about notes and records; ours.

All are shares from 0 to 1 over all questions together, with intervals over resampled questions.
Whether an answer is right is judged where the questions are asked; here the verdicts are counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from .metric import (
    Case,
    FloatArray,
    Leaderboard,
    Metric,
    PartOfF1,
    RatioMetric,
    Tally,
    part_of_f1,
)
from .scores import Scores, record


class NoteScore(NamedTuple):
    """The counts of one question about a note; `groups` is 0 where the note does not answer.

    `groups` are of quotes, of which one each suffices; `hitting` of the `cited` sentences hit one.
    `both_right` is set on one of two twins: whether both of their questions are answered right.
    """

    groups: int
    hit_groups: int
    cited: int
    hitting: int
    answered: bool
    hard: bool
    failed: bool
    right_status: bool
    right: bool
    wrong_with_confidence: bool
    both_right: bool | None = None


class RecordScore(NamedTuple):
    """The verdict on one question about a record; `gold_cited` is None where there is no gold.

    `groups` to `hitting` count resources as `NoteScore` counts sentences.
    """

    right: bool
    wrong_with_confidence: bool
    refused: bool
    gold_cited: bool | None
    right_status: bool
    groups: int
    hit_groups: int
    cited: int
    hitting: int


@dataclass(frozen=True, kw_only=True)
class ShareOfQuestions(RatioMetric[Case]):
    """The share of the questions of one kind of which something is true."""

    field: ClassVar[str] = ""
    """The field of a question that says whether it is true."""

    def verdict(self, case: Case) -> bool | None:
        """Whether it is true of a question; None for a question of another kind."""
        verdict: bool | None = getattr(case, self.field)
        return verdict

    def tally(self, case: Case) -> Tally:
        """(1 if true, 1), or zeros for a question of another kind."""
        verdict = self.verdict(case)
        if verdict is None:
            return 0.0, 0.0
        return float(verdict), 1.0


class StatusAccuracy(ShareOfQuestions[NoteScore | RecordScore]):
    """The share of all questions whose answer has a right status, whatever it says."""

    name = "ask_status_accuracy"
    field = "right_status"


class WrongWithConfidence(ShareOfQuestions[NoteScore | RecordScore]):
    """The share of all questions with a wrong answer, or "not found" for what is there."""

    name = "ask_wrong_with_confidence"
    field = "wrong_with_confidence"


class Right(ShareOfQuestions[NoteScore | RecordScore]):
    """The share of all questions with a right answer."""

    name = "ask_right"
    field = "right"


class BothTwinsRight(ShareOfQuestions[NoteScore]):
    """The share of pairs of twins with two right answers."""

    name = "ask_both_twins_right"
    field = "both_right"


class Refused(ShareOfQuestions[RecordScore]):
    """The share of all questions that are neither right nor wrong with confidence."""

    name = "ask_refused"
    field = "refused"


class GoldCited(ShareOfQuestions[RecordScore]):
    """The share of right answers with a gold that cite it."""

    name = "ask_gold_cited"
    field = "gold_cited"


class Answered(ShareOfQuestions[NoteScore]):
    """The share of questions that the note answers which were answered."""

    name = "ask_answered"

    def verdict(self, case: NoteScore) -> bool | None:
        """Whether a question was answered that the note answers."""
        return case.answered if case.groups else None


@dataclass(frozen=True, kw_only=True)
class Abstained(ShareOfQuestions[NoteScore]):
    """The share of questions that the note does not answer which were not answered.

    `of`: all of them, or the hard ones, whose topic occurs in the note.
    """

    name = "ask_abstained"
    of: Literal["all", "hard"] = "all"

    def verdict(self, case: NoteScore) -> bool | None:
        """Whether a question was left unanswered that the note does not answer."""
        if case.groups or (self.of == "hard" and not case.hard):
            return None
        return not case.answered and not case.failed


@dataclass(frozen=True, kw_only=True)
class AskEvidence(Metric[NoteScore | RecordScore]):
    """Precision, recall or F1 of what answers cite, over the questions that have a gold.

    An unanswered question misses all its groups of gold and cites nothing.
    """

    part: ClassVar[PartOfF1]

    @property
    def width(self) -> int:
        """Hitting and all citations, hit and all groups of gold."""
        return 4

    def tally(self, case: NoteScore | RecordScore) -> Tally:
        """(hitting, cited, hit groups, groups), or zeros without a gold."""
        if not case.groups:
            return 0.0, 0.0, 0.0, 0.0
        return (
            float(case.hitting),
            float(case.cited),
            float(case.hit_groups),
            float(case.groups),
        )

    def value(self, total: FloatArray) -> FloatArray:
        """The score; 0 where a denominator is 0."""
        return part_of_f1(total, self.part)


class AskEvidencePrecision(AskEvidence):
    """The share of what is cited that belongs to the gold."""

    name = "ask_evidence_precision"
    part = "precision"


class AskEvidenceRecall(AskEvidence):
    """The share of the groups of gold of which something is cited."""

    name = "ask_evidence_recall"
    part = "recall"


class AskEvidenceF1(AskEvidence):
    """Their harmonic mean."""

    name = "ask_evidence_f1"
    part = "f1"


_DENOMINATORS = {"precision": (1,), "recall": (3,), "f1": (1, 3)}
"""The places in the tally of `AskEvidence` that must be above 0."""

_OF_BOTH: Leaderboard = {
    "right": Right(),
    "wrong_with_confidence": WrongWithConfidence(),
    "status_accuracy": StatusAccuracy(),
    "evidence_f1": AskEvidenceF1(),
}
_OF_NOTES: Leaderboard = {
    **_OF_BOTH,
    "answered": Answered(),
    "recall": AskEvidenceRecall(),
    "precision": AskEvidencePrecision(),
    "f1": AskEvidenceF1(),
    "abstained": Abstained(),
    "hard_abstained": Abstained(of="hard"),
    "both_twins_right": BothTwinsRight(),
}
_OF_RECORDS: Leaderboard = {
    **_OF_BOTH,
    "refused": Refused(),
    "gold_cited": GoldCited(),
}


def score_asking(questions: Sequence[NoteScore | RecordScore]) -> Scores:
    """The scores of questions of one kind, with intervals and signatures.

    A score that is not defined is in `missing`: no question of its kind, or nothing cited.
    """
    scores = Scores("ask", cases=len(questions))
    numbers = range(1, len(questions) + 1)
    names = list(map(str, numbers))
    for name, metric in asking_metrics(questions).items():
        tallies = metric.tallies(questions)
        total = tallies.sum(axis=0)
        denominators = (
            _DENOMINATORS[metric.part] if isinstance(metric, AskEvidence) else (1,)
        )
        if all(total[place] for place in denominators):
            record(name, metric, names, tallies, scores)
        else:
            scores.missing[name] = "there is nothing that it could count."
    return scores


def asking_metrics(
    questions: Sequence[NoteScore | RecordScore],
) -> Leaderboard:
    """Key of `archqa evaluate ask --json` → its metric, for questions of one kind."""
    about_notes = any(isinstance(question, NoteScore) for question in questions)
    return dict(_OF_NOTES if about_notes else _OF_RECORDS)
