"""`archqa score RUN_OR_FILE`: the official numbers, each with its interval and signature."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from archqa.cli.words import notice, out, print_json
from archqa.errors import CallerError
from archqa.runs.scoring import Report, ScoreSettings, score

NAME = "score"


def command(
    target: Annotated[Path, typer.Argument(metavar="RUN_OR_FILE", help="A run folder, or a submission.json.")],
    key: Annotated[Path | None, typer.Option(help="The key; default: the one beside the case file.")] = None,
    data: Annotated[Path | None, typer.Option(help="The case file a bare submission answers.")] = None,
    task: Annotated[str | None, typer.Option(help="The task, where the run does not tell.")] = None,
    second_key: Annotated[Path | None, typer.Option(help="A second reader's key, to read the score against.")] = None,
    metric: Annotated[list[str] | None, typer.Option(help='Only these, e.g. "bleu" or "rouge(variant=L)".')] = None,
    reference_order: Annotated[str, typer.Option(help="note, or hash:SEED as the official script orders.")] = "note",
    bootstrap: Annotated[int, typer.Option(min=0, help="Resamples for the 95 % intervals.")] = 1000,
    seed: Annotated[int, typer.Option(help="Of the resampling.")] = 12345,
    quickumls: Annotated[Path | None, typer.Option(help="A QuickUMLS index (MEDCON).")] = None,
    alignscore: Annotated[Path | None, typer.Option(help="AlignScore-base.ckpt.")] = None,
    bertscore_model: Annotated[
        str | None, typer.Option(help="An encoder's folder, where the hub is not at hand.")
    ] = None,
    official_json: Annotated[
        Path | None, typer.Option(help="Also write the organisers' leaderboard JSON here.")
    ] = None,
    per_case: Annotated[bool, typer.Option("--per-case", help="Also each case's strict F1, worst first.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Score a run or a submission by the task's official rules, beside what it should be read against.

    Examples:
      archqa score runs/dev
      archqa score submission.json --data data/dev.json
      archqa score runs/dev --metric strict_micro_f1 --json
    """
    if task not in {None, "archehr-2025"}:
        raise CallerError(f"Scoring {task!r} is not built yet in this version.\nSee CHANGELOG.md for what is.")
    settings = ScoreSettings(
        metrics=tuple(metric) if metric else None,
        reference_order=reference_order,
        bootstrap=bootstrap,
        seed=seed,
        quickumls_path=quickumls,
        alignscore_path=alignscore,
        bertscore_model=bertscore_model,
    )
    report = score(target, key=key, data=data, second_key=second_key, settings=settings)
    if official_json is not None:
        official_json.write_text(json.dumps(report.scores.scores, indent=2) + "\n", encoding="utf-8")
    if as_json:
        print_json(report.as_json())
        return
    _tell(report, per_case=per_case)


def _tell(report: Report, *, per_case: bool) -> None:
    out.print(_table(report))
    out.print("  signatures: --json, or scores.json in the run folder", style="dim")
    for name, scores in report.baselines.items():
        out.print(f"  beside it: {name.replace('_', ' ')}: strict_micro_f1 {scores.scores['strict_micro_f1']:.1f}")
    if per_case:
        out.print(_cases_table(report))
    for name, reason in report.scores.missing.items():
        notice(f"{name} is missing: {reason}")
    for warning in report.scores.warnings:
        notice(warning)


def _table(report: Report) -> Table:
    scores = report.scores
    table = Table(title=f"{scores.task}, {scores.cases} cases", title_justify="left")
    table.add_column("score")
    table.add_column("value", justify="right")
    table.add_column("95 % interval", justify="right")
    for name, value in scores.scores.items():
        interval = scores.intervals.get(name)
        sure = f"[{interval[0]:.1f}, {interval[1]:.1f}]" if interval else ""
        table.add_row(name, f"{value:.1f}", sure.replace("[", r"\["))
    return table


def _cases_table(report: Report) -> Table:
    table = Table(title="strict F1 by case, worst first", title_justify="left")
    table.add_column("case")
    table.add_column("strict F1", justify="right")
    rows = {case: values.get("strict_macro_f1", 0.0) for case, values in report.scores.per_case.items()}
    for case, value in sorted(rows.items(), key=lambda row: row[1]):
        table.add_row(case, f"{value:.1f}")
    return table
