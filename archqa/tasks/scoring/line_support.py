"""Has a judge say which lines of cited answers are supported by what they cite (`line_support_judged`)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from archqa.agents.line_check import (
    CitedText,
    LineCheckTask,
    LineSupportAgent,
    LineToCheck,
    SupportVerdicts,
)
from archqa.core.usage import Usage
from archqa.errors import CallerError
from archqa.tasks.judging import Judge, Opinion
from archqa.tasks.scoring import ScoreSettings, ScoringRequest
from archqa.tasks.scoring.score_report import ScoreReport
from scoring.line_support import (
    CitedLine,
    JudgedLine,
    LineSupport,
    LineSupportJudged,
    add_judged_lines,
    is_carried,
)

RowLines = Mapping[str, tuple[CitedLine, ...]]
"""Each row of a submission, and the lines of its answer."""

_UNUSABLE = "no usable verdict"


class LineVote(NamedTuple):
    """One vote on one line. `verdict` is None where the model gave no usable one; `why` says why."""

    verdict: str | None
    why: str


class LineVotes(NamedTuple):
    """A line of a row, and the votes on it; none where nothing was asked about it."""

    row: str
    line: CitedLine
    votes: tuple[LineVote, ...] = ()

    @property
    def is_supported(self) -> bool:
        """Whether the majority of the votes finds the line supported; a tie does not."""
        supported = sum(vote.verdict == "supported" for vote in self.votes)
        return supported * 2 > len(self.votes)

    @property
    def is_split(self) -> bool:
        """Whether votes differ on what counts, or one is unusable."""
        verdicts = {vote.verdict for vote in self.votes}
        return None in verdicts or ("supported" in verdicts and len(verdicts) > 1)

    def as_json(self) -> dict[str, Any]:
        """The line, what it cites, the votes, and what the lexical rule says."""
        return {
            "case_id": self.row,
            "line": self.line.text,
            "cited": [sentence._asdict() for sentence in self.line.sentences],
            "verdicts": [vote.verdict for vote in self.votes],
            "counted": self.is_supported,
            "lexical_rule": is_carried(self.line, LineSupport.share),
            "why": [vote.why for vote in self.votes] or ["cites no sentence of the note"],
        }


def judge_lines(judge: Judge, rows: RowLines) -> tuple[list[LineVotes], Usage]:
    """The votes on every line, in order, and their cost.

    All lines of an answer are judged in one request. A line that is too short to count is not
    shown to the judge, nor is one that cites nothing. Raises `ModelError`, `BudgetExceeded`, and
    `CallerError` where no line is left.
    """
    tasks = {row: _task(lines) for row, lines in rows.items() if any(map(_is_judged, lines))}
    if not tasks:
        raise CallerError(
            "No line of this submission cites a sentence of its note: a judge has nothing to read.\n"
            "Leave --judge-model out."
        )
    opinions, usage = judge.judge(LineSupportAgent(), list(tasks.values()))
    opinions_of = dict(zip(tasks, opinions, strict=True))
    votes: list[LineVotes] = []
    for row, lines in rows.items():
        votes.extend(_votes(row, lines, opinions_of.get(row, ())))
    return votes, usage


def with_judged_lines(report: ScoreReport, request: ScoringRequest, rows: RowLines) -> ScoreReport:
    """The report with `line_support_judged`, if a judge was named and the score is asked for.

    Raises as `judge_lines` does.
    """
    if request.judge is None or not _is_asked_for(request.settings):
        return report
    votes, usage = judge_lines(request.judge, rows)
    metric = LineSupportJudged(
        judge=request.judge.name,
        prompt=LineSupportAgent.prompt,
        votes=request.judge.votes,
        bs=request.settings.bootstrap,
        seed=request.settings.seed,
    )
    add_judged_lines(metric, _judged_rows(rows, votes), report.scores)
    report.scores.warnings.extend(_warnings(votes))
    unsupported = [
        line_votes
        for line_votes in votes
        if line_votes.line.is_counted and not line_votes.is_supported
    ]
    return replace(
        report,
        unsupported_lines=tuple(line_votes.as_json() for line_votes in unsupported),
        disagreements=tuple(line_votes.as_json() for line_votes in votes if line_votes.is_split),
        judge_usage=usage,
    )


def _is_asked_for(settings: ScoreSettings) -> bool:
    if settings.metrics is None:
        return True
    return any(name.startswith(LineSupportJudged.name) for name in settings.metrics)


def _is_judged(line: CitedLine) -> bool:
    return line.is_counted and bool(line.cited_text.strip())


def _task(lines: Sequence[CitedLine]) -> LineCheckTask:
    judged = filter(_is_judged, lines)
    to_judge = []
    for number, line in enumerate(judged, start=1):
        sources = tuple(
            CitedText(id=line_votes.id, text=line_votes.text) for line_votes in line.sentences
        )
        to_judge.append(LineToCheck(number=str(number), text=line.text, sources=sources))
    return LineCheckTask(lines=tuple(to_judge))


def _votes(
    row: str, lines: Sequence[CitedLine], opinions: Sequence[Opinion[SupportVerdicts]]
) -> Iterator[LineVotes]:
    """The votes on line_votes line of one answer."""
    number = 0
    for line in lines:
        if not _is_judged(line):
            yield LineVotes(row, line)
            continue
        number += 1
        votes = tuple(_vote(opinion, str(number)) for opinion in opinions)
        yield LineVotes(row, line, votes)


def _vote(opinion: Opinion[SupportVerdicts], number: str) -> LineVote:
    if opinion.output is None:
        return LineVote(None, opinion.failure)
    verdict = opinion.output.by_number.get(number)
    if verdict is None:
        return LineVote(None, _UNUSABLE)
    return LineVote(verdict.verdict, verdict.reason)


def _judged_rows(rows: RowLines, votes: Sequence[LineVotes]) -> dict[str, tuple[JudgedLine, ...]]:
    judged: dict[str, list[JudgedLine]] = {row: [] for row in rows}
    for line_votes in votes:
        judged[line_votes.row].append(JudgedLine(line_votes.line, line_votes.is_supported))
    return {row: tuple(lines) for row, lines in judged.items()}


def _warnings(votes: Sequence[LineVotes]) -> Iterator[str]:
    """A warning about votes without a usable verdict."""
    unusable = sum(vote.verdict is None for line_votes in votes for vote in line_votes.votes)
    if unusable:
        yield f"{unusable} verdicts of the judge were unusable and count against the line."
