"""`archqa score RUN_OR_FILE`: the official scores, each with its interval and signature."""

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Literal, cast, get_args

from rich.table import Table
from typer import Argument, Option

from archqa import tasks
from archqa.cli.console import console, number_table, print_json, print_notice
from archqa.cli.options import (
    AllowPlainHttpOption,
    JsonOption,
    KeyOption,
    command_settings,
    plain_http_allowed,
)
from archqa.core.near_misses import unknown_name
from archqa.errors import CallerError
from archqa.evaluation.scoring import ScoreReport, ScoreSettings, score
from archqa.tasks.key_provenance import KeyProvenance

Grading = Literal["official", "clinical", "both"]

_HEADLINES = (
    "strict_micro_f1",
    "micro_f1",
    "answer_correctness",
    "success_rate",
    "clinical_success_rate",
)
"""The score that a baseline is shown by: the earliest that it has."""

_CASE_SCORES = (
    "strict_macro_f1",
    "strict_micro_f1",
    "macro_f1",
    "micro_f1",
    "answer_correctness",
    "success_rate",
    "rougeLsum",
)
"""The score that cases are listed by: the earliest that they have."""

_COUNT_COLUMNS = ("questions", "tasks")

_BREAKDOWN_COLUMNS = (
    *_COUNT_COLUMNS,
    "precision",
    "recall",
    "f1",
    "answer_correctness",
    "success_rate",
    "clinical_success_rate",
    "official",
    "clinical",
)


def command(
    target: Annotated[
        Path,
        Argument(metavar="RUN_OR_FILE", help="A run folder, or a submission.json."),
    ],
    key: KeyOption = None,
    data: Annotated[
        Path | None, Option(help="The case file that a bare submission answers.")
    ] = None,
    task: Annotated[
        str | None, Option(help="The task, where the rows do not show it.")
    ] = None,
    case_ids: Annotated[
        str | None,
        Option(
            metavar="IDS", help='Only these cases of the key, e.g. "121-167 5 7-9".'
        ),
    ] = None,
    all_cases: Annotated[
        bool,
        Option(
            "--all-cases", help="Count cases that a partial run lacks as unanswered."
        ),
    ] = False,
    record: Annotated[
        str | None,
        Option(
            metavar="STORE_OR_URL",
            help="The FHIR record to grade MedAgentBench against.",
        ),
    ] = None,
    fhir_base: Annotated[
        str | None,
        Option(
            metavar="URL",
            help="MedAgentBench: the base URL that the agents were told, "
            "if not http://localhost:8080/fhir/.",
        ),
    ] = None,
    grading: Annotated[
        str, Option(help="MedAgentBench: official, clinical or both.")
    ] = "both",
    second_key: Annotated[
        Path | None,
        Option(help="A second annotator's key, to compare the score with."),
    ] = None,
    metric: Annotated[
        list[str] | None,
        Option(help='Only this metric, e.g. "bleu" or "rouge(variant=L)"; repeatable.'),
    ] = None,
    reference_order: Annotated[
        str, Option(help="note, or hash:SEED as the official script orders.")
    ] = "note",
    bootstrap: Annotated[
        int, Option(min=0, help="Resamples for the 95 % intervals.")
    ] = 1000,
    seed: Annotated[int, Option(help="Of the resampling.")] = 12345,
    quickumls: Annotated[
        Path | None, Option(help="A QuickUMLS index (MEDCON).")
    ] = None,
    alignscore: Annotated[Path | None, Option(help="AlignScore-base.ckpt.")] = None,
    bertscore_model: Annotated[
        str | None,
        Option(help="An encoder's folder, where the hub cannot be reached."),
    ] = None,
    judge_model: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="The model that judges FHIR-AgentBench answers no rule can, "
            "or whether what ArchEHR-QA lines cite carries them.",
        ),
    ] = None,
    judge_votes: Annotated[
        int,
        Option(
            min=1, metavar="N", help="How often the judge is asked about each answer."
        ),
    ] = 1,
    base_url: Annotated[
        str | None, Option(help="The judge's OpenAI-compatible server.")
    ] = None,
    allow_plain_http: AllowPlainHttpOption = None,
    config: Annotated[
        Path | None, Option(help="A TOML file of settings, for the judge.")
    ] = None,
    official_json: Annotated[
        Path | None, Option(help="Also write the organisers' own file here.")
    ] = None,
    strict: Annotated[
        bool,
        Option(
            "--strict",
            help="ArchEHR-QA: refuse (exit code 3) what the organisers' script refuses.",
        ),
    ] = False,
    per_case: Annotated[
        bool, Option("--per-case", help="Also each case's score, worst first.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Score a run or a submission by the task's official rules, next to baselines.

    Examples:
      archqa score runs/dev
      archqa score submission.json --data data/dev.json
      archqa score links.json --task archehr-2026-st4 --key data/dev_key.json
      archqa score runs/dev --judge-model gpt-4.1
      archqa score results.json --key questions.csv --judge-model o4-mini --judge-votes 3
      archqa score runs/med --key tasks.json --record record.db --grading both
      archqa score runs.jsonl --key tasks.json --record record.db --fhir-base http://fhir:9000/fhir/
    """
    if grading not in get_args(Grading):
        raise unknown_name("grading", grading, get_args(Grading))
    judge = None
    if judge_model is not None:
        # Models are slow to import, and most scores need none.
        from archqa.evaluation.judges import JudgePanel
        from archqa.runs.destinations import Announcer

        settings = command_settings(
            config,
            model=judge_model,
            base_url=base_url,
            allow_plain_http=allow_plain_http,
        )
        judge = JudgePanel(
            judge_model,
            judge_votes,
            settings,
            announce=Announcer(print_notice),
        )
    elif judge_votes > 1 or base_url is not None or config is not None:
        raise CallerError(
            "There is no judge to ask.\nName one with --judge-model NAME."
        )
    report = score(
        target,
        task=task,
        key=key,
        data=data,
        second_key=second_key,
        record=record,
        fhir_base=fhir_base,
        case_ids=tuple((case_ids or "").split()),
        allow_plain_http=plain_http_allowed(record, allow_plain_http),
        judge=judge,
        official=official_json,
        strict=strict,
        settings=ScoreSettings(
            metrics=tuple(metric) if metric else None,
            reference_order=reference_order,
            bootstrap=bootstrap,
            seed=seed,
            quickumls_path=quickumls,
            alignscore_path=alignscore,
            bertscore_model=bertscore_model,
            grading=cast("Grading", grading),
        ),
        all_cases=all_cases,
    )
    if as_json:
        print_json(report.as_json())
    else:
        _print_report(report, per_case=per_case)
        for name, reason in report.scores.missing.items():
            print_notice(f"{name} is missing: {reason}")
    for warning in report.scores.warnings:
        print_notice(warning)
    if report.judge_usage:
        usage = report.judge_usage
        cost = (
            "at unknown cost"
            if usage.cost_usd is None
            else f"for ${usage.cost_usd:.2f}"
        )
        print_notice(
            f"the judge was asked {usage.calls} times {cost}; "
            f"{usage.cached_calls} more replies came from the cache."
        )
    if report.disagreements:
        count = len(report.disagreements)
        print_notice(
            f"{count} disagreements of the judge are in {report.disagreements_path}."
        )
    if report.unsupported_lines:
        count = len(report.unsupported_lines)
        print_notice(
            f"{count} lines without support are in {report.unsupported_lines_path}."
        )


def print_key(key: KeyProvenance) -> None:
    """Print on stderr what a key made of reviews is, and its warnings; nothing for other keys."""
    if key.kind == "reviews":
        for line in (key.statement, *key.warnings):
            print_notice(line)


def _print_report(report: ScoreReport, *, per_case: bool) -> None:
    """Print the scores, their break-downs and the baselines; with `per_case`, each case too."""
    decimals = tasks.find(report.scores.task).display.decimals
    console.print(_score_table(report, decimals))
    if report.key:
        console.print(f"  {report.key.statement}", highlight=False, markup=False)
    for name, rows in report.scores.tables.items():
        if rows != report.baselines:  # Baselines are printed below.
            console.print(_breakdown_table(name, rows, decimals))
    console.print("  signatures: --json, or scores.json in the run folder", style="dim")
    for name, scores in report.baselines.items():
        metric = _earliest(_HEADLINES, scores.keys())
        if metric:
            label = name.replace("_", " ")
            line = f"  baseline {label}: {metric} {scores[metric]:.{decimals}f}"
            console.print(line)
    if per_case:
        console.print(_case_table(report, decimals))


def _score_table(report: ScoreReport, decimals: int) -> Table:
    scores = report.scores
    cases = f"{scores.cases:,} cases"
    if scores.cases < report.cases_in_key:
        cases = f"{scores.cases:,} of {report.cases_in_key:,} cases"
    table = number_table(f"{scores.task}, {cases}", "score", "value", "95 % interval")
    for name, value in scores.scores.items():
        interval_cell = ""
        if name in scores.intervals:
            low, high = scores.intervals[name]
            interval_cell = f"[{low:.{decimals}f}, {high:.{decimals}f}]"
        table.add_row(name, f"{value:.{decimals}f}", interval_cell)
    return table


def _breakdown_table(
    name: str, rows: dict[str, dict[str, float]], decimals: int
) -> Table:
    names_in_rows = {name for row in rows.values() for name in row}
    columns = [column for column in _BREAKDOWN_COLUMNS if column in names_in_rows]
    table = number_table(name.replace("_", " "), "", *columns)
    for group, row in rows.items():
        cells = []
        for column in columns:
            digits = 0 if column in _COUNT_COLUMNS else decimals
            cells.append(f"{row[column]:.{digits}f}" if column in row else "")
        table.add_row(group, *cells)
    return table


def _case_table(report: ScoreReport, decimals: int) -> Table:
    per_case = report.scores.per_case
    names_in_cases = {name for scores in per_case.values() for name in scores}
    metric = _earliest(_CASE_SCORES, names_in_cases)
    table = number_table(f"{metric} by case, worst first", "case", metric)
    for case_id in sorted(
        per_case, key=lambda case_id: per_case[case_id].get(metric, 0.0)
    ):
        table.add_row(case_id, f"{per_case[case_id].get(metric, 0.0):.{decimals}f}")
    return table


def _earliest(preferred: tuple[str, ...], available: Collection[str]) -> str:
    """Return the earliest preferred name that is available, or an empty string."""
    return next((name for name in preferred if name in available), "")
