"""What scoring asks of a judge, a model: an agent's output on each task, one for each vote.

`with_judged_lines` has it say which lines of cited answers are supported by what they cite
(`line_support_judged`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from archqa.core.usage import Usage
from archqa.core.value import FrozenModel
from archqa.errors import CallerError
from archqa.tasks.scoring import ScoringRequest
from archqa.tasks.scoring.score_report import ScoreReport
from scoring.line_support import (
    CitedLine,
    JudgedLine,
    LineSupport,
    LineSupportJudged,
    add_judged_lines,
    is_carried,
)

if TYPE_CHECKING:  # Agents and models are imported only where there is a judge.
    from archqa.agents.agent import Agent
    from archqa.agents.line_check import LineCheckTask

Output = TypeVar("Output", bound=FrozenModel)


class Opinion(NamedTuple, Generic[Output]):
    """One vote on one task. `output` is None where the model gave no usable one; `failure` says why."""

    output: Output | None
    failure: str = ""


class Judge(Protocol):
    """A model by name, which is asked `votes` times."""

    @property
    def name(self) -> str:
        """The model's name."""

    @property
    def votes(self) -> int:
        """Votes on each task."""

    def judge(
        self, agent: "Agent[Any, Output]", tasks: Sequence[FrozenModel]
    ) -> tuple[list[tuple[Opinion[Output], ...]], Usage]:
        """The opinions of an agent on each task, in order, and their cost.

        Raises `ModelError`, `BudgetExceeded`.
        """


RowLines = Mapping[str, tuple[CitedLine, ...]]
"""Each row of a submission, and the lines of its answer."""


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
    def verdicts(self) -> list[str | None]:
        """The verdict of each vote."""
        return [vote.verdict for vote in self.votes]

    @property
    def is_supported(self) -> bool:
        """Whether the majority of the votes finds the line supported; a tie does not."""
        return self.verdicts.count("supported") * 2 > len(self.votes)

    @property
    def is_split(self) -> bool:
        """Whether votes differ on what counts, or one is unusable."""
        verdicts = set(self.verdicts)
        return None in verdicts or ("supported" in verdicts and len(verdicts) > 1)

    def as_json(self) -> dict[str, Any]:
        """The line, what it cites, the votes, and what the lexical rule says."""
        return {
            "case_id": self.row,
            "line": self.line.text,
            "cited": [sentence._asdict() for sentence in self.line.sentences],
            "verdicts": self.verdicts,
            "counted": self.is_supported,
            "lexical_rule": is_carried(self.line, LineSupport.share),
            "why": [vote.why for vote in self.votes]
            or ["cites no sentence of the note"],
        }


def judge_lines(judge: Judge, rows: RowLines) -> tuple[list[LineVotes], Usage]:
    """The votes on every line, in order, and their cost.

    All lines of an answer are judged in one request. A line that is too short to count is not
    shown to the judge, nor is one that cites nothing. Raises `ModelError`, `BudgetExceeded`, and
    `CallerError` where no line is left.
    """
    from archqa.agents.line_check import LineSupportAgent

    tasks = {
        row: _check_task(lines)
        for row, lines in rows.items()
        if any(map(_is_judged, lines))
    }
    if not tasks:
        raise CallerError(
            "No line of this submission cites a sentence of its note: a judge has nothing to read.\n"
            "Leave --judge-model out."
        )
    opinions, usage = judge.judge(LineSupportAgent(), list(tasks.values()))
    opinions_of = dict(zip(tasks, opinions, strict=True))
    lines_with_votes: list[LineVotes] = []
    for row, lines in rows.items():
        number = 0
        for line in lines:
            if not _is_judged(line):
                lines_with_votes.append(LineVotes(row, line))
                continue
            number += 1
            votes = []
            for opinion in opinions_of[row]:
                verdict = opinion.output and opinion.output.by_number.get(str(number))
                if verdict:
                    votes.append(LineVote(verdict.verdict, verdict.reason))
                else:
                    votes.append(LineVote(None, opinion.failure or "no usable verdict"))
            lines_with_votes.append(LineVotes(row, line, tuple(votes)))
    return lines_with_votes, usage


def with_judged_lines(
    report: ScoreReport, request: ScoringRequest, rows: RowLines
) -> ScoreReport:
    """The report with `line_support_judged`, if a judge was named and the score is asked for.

    Raises as `judge_lines` does.
    """
    judge = request.judge
    if judge is None or not request.settings.includes(LineSupportJudged.name):
        return report
    from archqa.agents.line_check import LineSupportAgent

    votes, usage = judge_lines(judge, rows)
    metric = LineSupportJudged(
        judge=judge.name,
        prompt=LineSupportAgent.prompt,
        votes=judge.votes,
        bs=request.settings.bootstrap,
        seed=request.settings.seed,
    )
    judged: dict[str, tuple[JudgedLine, ...]] = dict.fromkeys(rows, ())
    unsupported = []
    disagreements = []
    unusable = 0
    for line in votes:
        judged[line.row] = (*judged[line.row], JudgedLine(line.line, line.is_supported))
        if line.line.is_counted and not line.is_supported:
            unsupported.append(line.as_json())
        if line.is_split:
            disagreements.append(line.as_json())
        unusable += line.verdicts.count(None)
    add_judged_lines(metric, judged, report.scores)
    if unusable:
        report.scores.warnings.append(
            f"{unusable} verdicts of the judge were unusable and count against the line."
        )
    return replace(
        report,
        unsupported_lines=tuple(unsupported),
        disagreements=tuple(disagreements),
        judge_usage=usage,
    )


def _is_judged(line: CitedLine) -> bool:
    return line.is_counted and bool(line.cited_text.strip())


def _check_task(lines: Iterable[CitedLine]) -> "LineCheckTask":
    from archqa.agents.chart_answer import CitedText
    from archqa.agents.line_check import LineCheckTask, LineToCheck

    to_check = []
    for number, line in enumerate(filter(_is_judged, lines), start=1):
        sources = tuple(
            CitedText(id=cited.id, text=cited.text) for cited in line.sentences
        )
        to_check.append(
            LineToCheck(number=str(number), text=line.text, sources=sources)
        )
    return LineCheckTask(lines=tuple(to_check))
