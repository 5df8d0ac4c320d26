"""`archqa evaluate ask SET`: measures asking on a set of questions with what is right."""

import json
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from archqa.asking.question import AskOptions, parse_time
from archqa.cli.console import (
    ProgressLine,
    configure_logging,
    console,
    number_table,
    print_json,
    print_notice,
)
from archqa.cli.options import (
    AllowPlainHttpOption,
    AssignmentsOption,
    BaseUrlOption,
    ConfigOption,
    JobsOption,
    JsonOption,
    LimitOption,
    ModelOption,
    QuietOption,
    VerboseOption,
    command_settings,
    print_embedded_notice,
)
from archqa.errors import CallerError
from archqa.evaluation.asking import Evaluation, NoteQuestion, evaluate_asking, read_set
from archqa.runs.destinations import Announcer
from archqa.safety.files import storage_errors, write_private_text

app = typer.Typer(help="Measurements on sets of your own.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Measurements on sets of your own."""


@app.command("ask")
def ask(
    question_set: Annotated[
        Path,
        Argument(metavar="SET", help="Questions with what is right, as JSON."),
    ],
    notes: Annotated[
        Path | None,
        Option(
            metavar="NOTES.json.gz", help="The texts of the notes of a set about notes."
        ),
    ] = None,
    record: Annotated[
        str | None,
        Option(help="The FHIR store or server of a set about patients."),
    ] = None,
    now: Annotated[
        str | None,
        Option(
            metavar="TIME",
            help="When patients are asked about.",
            show_default="the present, or the end of a dead patient's or a shifted record",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        Option(
            metavar="FILE.jsonl", help="Write one line a question, to read the errors."
        ),
    ] = None,
    limit: LimitOption = None,
    jobs: JobsOption = None,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    allow_plain_http: AllowPlainHttpOption = None,
    config: ConfigOption = None,
    assign: AssignmentsOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Ask every question of a set, and compare with what is right.

    About notes: the share answered, recall, precision and F1 of the cited sentences, the share of
    unanswerable questions (the hard ones too) that were not answered, and of twins, one question of
    two notes, the share of which both are right. About patients: the share refused, and of the right
    answers those that cite the gold. Of both: the shares right, wrong with confidence and with a
    right status, the F1 of the evidence, and right and wrong by kind of question. Intervals are over
    questions.

    Example:
      archqa evaluate ask notes.json --notes mtsamples.json.gz --out answers.jsonl
    """
    configure_logging(verbose=verbose, quiet=quiet)
    settings = command_settings(
        config,
        assign,
        model=model,
        base_url=base_url,
        allow_plain_http=allow_plain_http,
        jobs=jobs,
    )
    questions = read_set(question_set, notes)[:limit]
    if not isinstance(questions[0], NoteQuestion) and record is None:
        raise CallerError(
            "The set is about patients.\nName their store or server with --record."
        )
    if not settings.has_model:
        print_embedded_notice(settings.replace(record=record))
    ask_options = AskOptions(
        settings, record, parse_time(now), announce=Announcer(print_notice, quiet=quiet)
    )
    counter = ProgressLine(len(questions), "questions asked")
    evaluation = evaluate_asking(questions, ask_options, lambda *_: counter.advance())
    counter.finish()
    if out is not None:
        lines = [json.dumps(row, ensure_ascii=False) for row in evaluation.rows]
        with storage_errors(out):
            write_private_text(out, "".join(f"{line}\n" for line in lines))
    if as_json:
        fields = evaluation._asdict()
        del fields["rows"]
        print_json({**fields.pop("figures"), **fields})
    else:
        _print(evaluation)
    if evaluation.failed:
        raise typer.Exit(1)


def _print(evaluation: Evaluation) -> None:
    title = f"{evaluation.questions} questions"
    table = number_table(title, "", "share", "95 % interval")
    for name, value in evaluation.figures.items():
        share = "–" if value is None else f"{value:.3f}"
        interval = ""
        if name in evaluation.intervals:
            low, high = evaluation.intervals[name]
            interval = f"[{low:.3f}, {high:.3f}]"
        table.add_row(name.replace("_", " "), share, interval)
    console.print(table)
    if evaluation.by_kind:
        table = number_table("By kind", "", "questions", "right", "wrong")
        for kind, shares in evaluation.by_kind.items():
            count, *others = shares.values()
            table.add_row(kind, str(count), *(f"{share:.3f}" for share in others))
        console.print(table)
    if evaluation.failed:
        print_notice(
            f"{evaluation.failed} questions failed; --out FILE.jsonl says why."
        )
