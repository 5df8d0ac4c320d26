"""How far a model as judge of cited lines agrees with the 200 lines that were read (`read_lines.json`).

    python -m tests.benchmarks.line_support --base-url http://127.0.0.1:8080/v1 --model NAME \
        --jobs 40 --timeout 7000

The lines of one answer are judged in one request, as `archqa score --judge-model` does; `--lines 10` puts ten
lines of several answers into one, and never a line beside itself with another citation. Only invented notes are sent.
Replies are kept in the cache, so that a run that was cut short goes on where it was: `--no-cache` asks anew.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from archqa.core.judgement import cohens_kappa, observed_agreement
from archqa.core.usage import Usage
from archqa.evaluation.judges import JudgePanel
from archqa.safety.files import write_private_text
from archqa.settings import load_settings
from archqa.tasks.scoring.judging import LineVotes, judge_lines
from scoring.line_support import LineSupport, is_carried
from tests.scoring.read_lines import ReadLine, read_lines


class Agreement(NamedTuple):
    """The verdicts of reader and judge on each line: carried or not. A line that was read as partly carried is not."""

    verdicts: Sequence[tuple[bool, bool]]

    @property
    def agreement(self) -> float:
        """The share of lines with the same verdict."""
        return observed_agreement(self.verdicts)

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa; None where it is undefined."""
        return cohens_kappa(self.verdicts)

    def __str__(self) -> str:
        both_not = sum(not reader and not judge for reader, judge in self.verdicts)
        flagged = sum(not judge for _, judge in self.verdicts)
        not_carried = sum(not reader for reader, _ in self.verdicts)
        kappa = "undefined" if self.kappa is None else f"{self.kappa:.3f}"
        return (
            f"agreement {self.agreement:.3f}, kappa {kappa} (n = {len(self.verdicts)}); not carried: "
            f"precision {_share(both_not, flagged)}, recall {_share(both_not, not_carried)}"
        )


def agreement(lines: Sequence[ReadLine], carried: Sequence[bool]) -> Agreement:
    """The agreement of verdicts with the reading, over the lines that are long enough to count."""
    counted = [
        (each.carried == "yes", verdict)
        for each, verdict in zip(lines, carried, strict=True)
        if each.line.is_counted
    ]
    return Agreement(counted)


def in_requests(
    lines: Sequence[ReadLine], size: int | None
) -> dict[str, list[ReadLine]]:
    """The lines of each request: those of one answer, or `size` lines, none of them twice."""
    requests: dict[str, list[ReadLine]] = {}
    if size is None:
        for each in lines:
            requests.setdefault(each.answer, []).append(each)
        return requests
    for each in lines:
        requests.setdefault(_request_with_room(requests, each, size), []).append(each)
    return requests


def judged(
    panel: JudgePanel, requests: dict[str, list[ReadLine]]
) -> tuple[list[LineVotes], Usage]:
    """The votes on each line, in the order of the requests, and their cost."""
    rows = {
        name: tuple(each.line for each in lines) for name, lines in requests.items()
    }
    return judge_lines(panel, rows)


def _request_with_room(
    requests: dict[str, list[ReadLine]], each: ReadLine, size: int
) -> str:
    for name, lines in requests.items():
        texts = {line.line.text for line in lines}
        if len(lines) < size and each.line.text not in texts:
            return name
    return f"request {len(requests) + 1}"


def _share(part: int, whole: int) -> str:
    return (
        f"{part / whole:.3f} ({part} of {whole})"
        if whole
        else f"undefined ({part} of 0)"
    )


def _report(
    lines: Sequence[ReadLine], votes: Sequence[LineVotes], usage: Usage, requests: int
) -> Iterator[str]:
    """Everything that is printed: the judge, then the rule on the same lines."""
    by_judge = [each.is_supported for each in votes]
    by_rule = [is_carried(each.line, LineSupport.share) for each in lines]
    unusable = sum(vote.verdict is None for each in votes for vote in each.votes)
    yield f"judge: {agreement(lines, by_judge)}"
    yield f"rule:  {agreement(lines, by_rule)}"
    for writer in ("engine", "panel", "six stages"):
        of_writer = [at for at, each in enumerate(lines) if each.by.startswith(writer)]
        part = agreement(
            [lines[at] for at in of_writer], [by_judge[at] for at in of_writer]
        )
        yield f"judge on lines of the {writer}: {part}"
    cost = "unknown" if usage.cost_usd is None else f"${usage.cost_usd:.2f}"
    yield (
        f"{requests} requests, {usage.calls} calls, {usage.cached_calls} from the cache; "
        f"{unusable} unusable verdicts (counted as not carried); "
        f"{usage.prompt_tokens} prompt and {usage.completion_tokens} completion tokens; cost {cost}"
    )


def _write_differences(
    path: Path, lines: Sequence[ReadLine], votes: Sequence[LineVotes]
) -> None:
    """Write the lines on which judge and reader differ, as JSON Lines."""
    rows = []
    for each, line_votes in zip(lines, votes, strict=True):
        if each.line.is_counted and line_votes.is_supported != (each.carried == "yes"):
            row = {**line_votes.as_json(), "read_as": each.carried}
            rows.append(json.dumps(row, ensure_ascii=False) + "\n")
    write_private_text(path, "".join(rows))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--votes", type=int, default=1)
    parser.add_argument(
        "--jobs", type=int, default=8, help="requests in flight at once"
    )
    parser.add_argument(
        "--timeout", type=float, default=180.0, help="seconds for one reply"
    )
    parser.add_argument(
        "--lines", type=int, help="a request; default: those of one answer"
    )
    parser.add_argument("--no-cache", action="store_true", help="ask anew")
    parser.add_argument(
        "--differences", type=Path, metavar="FILE.jsonl", help="write them there"
    )
    return parser.parse_args()


def main() -> None:
    """Ask the judge and print its agreement with the reading."""
    options = _arguments()
    typed = {
        "base_url": options.base_url,
        "model": options.model,
        "jobs": options.jobs,
        "timeout": options.timeout,
        "cache": not options.no_cache,
    }
    settings = load_settings(None, typed, ())
    panel = JudgePanel(options.model, options.votes, settings)
    requests = in_requests(read_lines(), options.lines)
    lines = [each for in_request in requests.values() for each in in_request]
    votes, usage = judged(panel, requests)
    for line in _report(lines, votes, usage, len(requests)):
        print(line, flush=True)
    if options.differences:
        _write_differences(options.differences, lines, votes)


if __name__ == "__main__":
    main()
