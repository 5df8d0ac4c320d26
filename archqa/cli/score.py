"""`archqa score RUN_OR_FILE`: the official scores, each with its interval and signature."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from archqa.cli.console import print_json, print_notice
from archqa.cli.options import AllowPlainHttpOption, JsonOption, KeyOption
from archqa.cli.records import plain_http_allowed
from archqa.cli.score_tables import print_notices, print_report
from archqa.core.near_misses import unknown_name
from archqa.errors import CallerError
from archqa.evaluation.scoring import ScoreSettings, score

if TYPE_CHECKING:
    from archqa.evaluation.judges import JudgePanel

Grading = Literal["official", "clinical", "both"]


def command(
    target: Annotated[
        Path, typer.Argument(metavar="RUN_OR_FILE", help="A run folder, or a submission.json.")
    ],
    key: KeyOption = None,
    data: Annotated[
        Path | None, typer.Option(help="The case file that a bare submission answers.")
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="The task, where the rows do not show it.")
    ] = None,
    case_ids: Annotated[
        str | None,
        typer.Option(metavar="IDS", help='Only these cases of the key, e.g. "121-167 5 7-9".'),
    ] = None,
    all_cases: Annotated[
        bool,
        typer.Option("--all-cases", help="Count cases that a partial run lacks as unanswered."),
    ] = False,
    record: Annotated[
        str | None,
        typer.Option(
            metavar="STORE_OR_URL", help="The FHIR record to grade MedAgentBench against."
        ),
    ] = None,
    fhir_base: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="MedAgentBench: the base URL that the agents were told, "
            "if not http://localhost:8080/fhir/.",
        ),
    ] = None,
    grading: Annotated[
        str, typer.Option(help="MedAgentBench: official, clinical or both.")
    ] = "both",
    second_key: Annotated[
        Path | None, typer.Option(help="A second annotator's key, to compare the score with.")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(help='Only this metric, e.g. "bleu" or "rouge(variant=L)"; repeatable.'),
    ] = None,
    reference_order: Annotated[
        str, typer.Option(help="note, or hash:SEED as the official script orders.")
    ] = "note",
    bootstrap: Annotated[int, typer.Option(min=0, help="Resamples for the 95 % intervals.")] = 1000,
    seed: Annotated[int, typer.Option(help="Of the resampling.")] = 12345,
    quickumls: Annotated[Path | None, typer.Option(help="A QuickUMLS index (MEDCON).")] = None,
    alignscore: Annotated[Path | None, typer.Option(help="AlignScore-base.ckpt.")] = None,
    bertscore_model: Annotated[
        str | None, typer.Option(help="An encoder's folder, where the hub cannot be reached.")
    ] = None,
    judge_model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The model that judges FHIR-AgentBench answers no rule can, "
            "or whether what ArchEHR-QA lines cite carries them.",
        ),
    ] = None,
    judge_votes: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="How often the judge is asked about each answer."),
    ] = 1,
    base_url: Annotated[
        str | None, typer.Option(help="The judge's OpenAI-compatible server.")
    ] = None,
    allow_plain_http: AllowPlainHttpOption = None,
    config: Annotated[
        Path | None, typer.Option(help="A TOML file of settings, for the judge.")
    ] = None,
    official_json: Annotated[
        Path | None, typer.Option(help="Also write the organisers' own file here.")
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="ArchEHR-QA: refuse (exit code 3) what the organisers' script refuses.",
        ),
    ] = False,
    per_case: Annotated[
        bool, typer.Option("--per-case", help="Also each case's score, worst first.")
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
    settings = ScoreSettings(
        metrics=tuple(metric) if metric else None,
        reference_order=reference_order,
        bootstrap=bootstrap,
        seed=seed,
        quickumls_path=quickumls,
        alignscore_path=alignscore,
        bertscore_model=bertscore_model,
        grading=_parse_grading(grading),
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
        judge=_judge_panel(judge_model, judge_votes, base_url, config, allow_plain_http),
        official=official_json,
        strict=strict,
        settings=settings,
        all_cases=all_cases,
    )
    if as_json:
        print_json(report.as_json())
    else:
        print_report(report, per_case=per_case)
    print_notices(report, missing_metrics=not as_json)


def _parse_grading(name: str) -> Grading:
    gradings: tuple[Grading, ...] = ("official", "clinical", "both")
    for grading in gradings:
        if name == grading:
            return grading
    raise unknown_name("grading", name, gradings)


def _judge_panel(
    model: str | None,
    votes: int,
    base_url: str | None,
    config: Path | None,
    allow_plain_http: bool | None,
) -> "JudgePanel | None":
    if model is not None:
        # Models are slow to import, and most scores need none.
        from archqa.cli.settings import command_settings
        from archqa.evaluation.judges import JudgePanel
        from archqa.runs.destinations import Announcer

        options = {"model": model, "base_url": base_url, "allow_plain_http": allow_plain_http}
        settings = command_settings(config, options)
        return JudgePanel(model, votes, settings, announce=Announcer(print_notice))
    if votes > 1 or base_url is not None or config is not None:
        raise CallerError("There is no judge to ask.\nName one with --judge-model NAME.")
    return None
