"""`archqa score RUN_OR_FILE`: the official numbers, each with its interval and signature."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.markup import escape
from rich.table import Table

from archqa import tasks
from archqa.cli.console import console, print_json, print_notice
from archqa.errors import CallerError
from archqa.evaluation.scoring import JudgePanel, ScoreReport, ScoreSettings, score
from archqa.settings import load_settings

_HEADLINES = (
    "strict_micro_f1",
    "micro_f1",
    "answer_correctness",
    "success_rate",
    "clinical_success_rate",
)
_BY_CASE = (
    "strict_macro_f1",
    "strict_micro_f1",
    "macro_f1",
    "micro_f1",
    "answer_correctness",
    "success_rate",
    "rougeLsum",
)
_COUNTS = ("questions", "tasks")
_COLUMNS = (
    *_COUNTS, "precision", "recall", "f1", "answer_correctness", "success_rate", "clinical_success_rate",
    "official", "clinical",
)  # fmt: skip


def command(
    target: Annotated[
        Path, typer.Argument(metavar="RUN_OR_FILE", help="A run folder, or a submission.json.")
    ],
    key: Annotated[
        Path | None, typer.Option(help="The key; default: the one beside the case file.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="The case file a bare submission answers.")
    ] = None,
    task: Annotated[str | None, typer.Option(help="The task, where the rows do not tell.")] = None,
    case_ids: Annotated[
        str | None,
        typer.Option(metavar="IDS", help='Only these cases of the key, e.g. "121-167 5 7-9".'),
    ] = None,
    record: Annotated[
        str | None,
        typer.Option(
            metavar="STORE_OR_URL", help="The FHIR record to grade MedAgentBench against."
        ),
    ] = None,
    grading: Annotated[
        str, typer.Option(help="MedAgentBench: official, clinical or both.")
    ] = "both",
    second_key: Annotated[
        Path | None, typer.Option(help="A second reader's key, to read the score against.")
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help='Only these, e.g. "bleu" or "rouge(variant=L)".')
    ] = None,
    reference_order: Annotated[
        str, typer.Option(help="note, or hash:SEED as the official script orders.")
    ] = "note",
    bootstrap: Annotated[int, typer.Option(min=0, help="Resamples for the 95 % intervals.")] = 1000,
    seed: Annotated[int, typer.Option(help="Of the resampling.")] = 12345,
    quickumls: Annotated[Path | None, typer.Option(help="A QuickUMLS index (MEDCON).")] = None,
    alignscore: Annotated[Path | None, typer.Option(help="AlignScore-base.ckpt.")] = None,
    bertscore_model: Annotated[
        str | None, typer.Option(help="An encoder's folder, where the hub is not at hand.")
    ] = None,
    judge_model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Decides FHIR-AgentBench answers that no rule does."),
    ] = None,
    judge_votes: Annotated[
        int, typer.Option(min=1, metavar="N", help="Times the judge is asked about each.")
    ] = 1,
    base_url: Annotated[
        str | None, typer.Option(help="The judge's OpenAI-compatible server.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="A TOML file of settings, for the judge.")
    ] = None,
    official_json: Annotated[
        Path | None, typer.Option(help="Also write the organisers' own file here.")
    ] = None,
    per_case: Annotated[
        bool, typer.Option("--per-case", help="Also each case's score, worst first.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Score a run or a submission by the task's official rules, next to baselines.

    Examples:
      archqa score runs/dev
      archqa score submission.json --data data/dev.json
      archqa score links.json --task archehr-2026-st4 --key data/dev_key.json
      archqa score results.json --key questions.csv --judge-model o4-mini --judge-votes 3
      archqa score runs/med --key tasks.json --record record.db --grading both
    """
    settings = ScoreSettings(
        metrics=tuple(metric) if metric else None,
        reference_order=reference_order,
        bootstrap=bootstrap,
        seed=seed,
        quickumls_path=quickumls,
        alignscore_path=alignscore,
        bertscore_model=bertscore_model,
        grading=_grading(grading),
    )
    report = score(
        target,
        task=task,
        key=key,
        data=data,
        second_key=second_key,
        record=record,
        case_ids=tuple((case_ids or "").split()),
        judge=_panel(judge_model, judge_votes, base_url, config),
        official=official_json,
        settings=settings,
    )
    if as_json:
        print_json(report.as_json())
    else:
        _tell(report, per_case=per_case)
    _warn(report, gaps=not as_json)


def _grading(name: str) -> Literal["official", "clinical", "both"]:
    for known in ("official", "clinical", "both"):
        if name == known:
            return known
    raise CallerError(f"There is no grading {name!r}.\nThere are: official, clinical, both.")


def _panel(
    model: str | None, votes: int, base_url: str | None, config: Path | None
) -> JudgePanel | None:
    if model is not None:
        return JudgePanel(model, votes, load_settings(config, {"base_url": base_url}))
    if votes > 1 or base_url is not None or config is not None:
        raise CallerError("There is no judge to ask.\nName one with --judge-model NAME.")
    return None


def _tell(report: ScoreReport, *, per_case: bool) -> None:
    console.print(_table(report))
    for name, table in report.scores.tables.items():
        if table == report.baselines:
            continue  # They are told below.
        console.print(_breakdown(name, table, _digits(report)))
    console.print("  signatures: --json, or scores.json in the run folder", style="dim")
    for name, scores in report.baselines.items():
        first = next((each for each in _HEADLINES if each in scores), None)
        if first:
            told = f"{name.replace('_', ' ')}: {first} {scores[first]:.{_digits(report)}f}"
            console.print(f"  beside it: {told}", markup=False)
    if per_case:
        console.print(_cases_table(report))


def _warn(report: ScoreReport, *, gaps: bool) -> None:
    for name, reason in report.scores.missing.items() if gaps else ():
        print_notice(f"{name} is missing: {reason}")
    for warning in report.scores.warnings:
        print_notice(warning)
    if usage := report.judge_usage:
        cost = "at unknown cost" if usage.cost_usd is None else f"for ${usage.cost_usd:.2f}"
        print_notice(
            f"the judge was asked {usage.calls} times {cost}; {usage.cached_calls} more came from the cache."
        )
    if report.disagreements:
        print_notice(
            f"{len(report.disagreements)} replies with disagreement are in {report.disagreements_path}."
        )


def _digits(report: ScoreReport) -> int:
    """Decimals of this task's scores."""
    return tasks.find(report.scores.task).display.decimals


def _table(report: ScoreReport) -> Table:
    scores, digits = report.scores, _digits(report)
    table = Table(title=f"{scores.task}, {scores.cases} cases", title_justify="left")
    table.add_column("score")
    table.add_column("value", justify="right")
    table.add_column("95 % interval", justify="right")
    for name, value in scores.scores.items():
        interval = scores.intervals.get(name)
        sure = f"[{interval[0]:.{digits}f}, {interval[1]:.{digits}f}]" if interval else ""
        table.add_row(escape(name), f"{value:.{digits}f}", sure.replace("[", r"\["))
    return table


def _breakdown(name: str, rows: dict[str, dict[str, float]], digits: int) -> Table:
    table = Table(title=name.replace("_", " "), title_justify="left")
    columns = [each for each in _COLUMNS if any(each in row for row in rows.values())]
    table.add_column("")
    for each in columns:
        table.add_column(each, justify="right")
    for group, row in rows.items():
        table.add_row(escape(group), *(_cell(row, each, digits) for each in columns))
    return table


def _cell(row: dict[str, float], name: str, digits: int) -> str:
    return f"{row[name]:.{0 if name in _COUNTS else digits}f}" if name in row else ""


def _cases_table(report: ScoreReport) -> Table:
    named = {name for values in report.scores.per_case.values() for name in values}
    name = next((each for each in _BY_CASE if each in named), "")
    table = Table(title=f"{name} by case, worst first", title_justify="left")
    table.add_column("case")
    table.add_column(name, justify="right")
    rows = {case: values.get(name, 0.0) for case, values in report.scores.per_case.items()}
    for case, value in sorted(rows.items(), key=lambda row: row[1]):
        table.add_row(escape(case), f"{value:.{_digits(report)}f}")
    return table
