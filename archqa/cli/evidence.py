"""`archqa evidence train|evaluate`: the embedded engine's model, rebuilt and measured on cases it has not seen."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from archqa import tasks
from archqa.cli import evidence_links
from archqa.cli.console import console, err_console, print_json, print_notice
from archqa.engine import model
from archqa.engine.training import auxiliary_corpus as further_data
from archqa.engine.training import cross_validation, regression
from archqa.engine.training.auxiliary_corpus import AuxiliaryCorpus
from archqa.engine.training.regression import LabelledCase, LabelledSets
from archqa.errors import CallerError

app = typer.Typer(help="The embedded engine's model.", no_args_is_help=True)

Files = Annotated[
    list[Path], typer.Argument(metavar="CASES...", help="Case files, each with its key beside it.")
]


@app.callback()
def _group() -> None:
    """The embedded engine's model."""


app.command("links")(evidence_links.command)


@app.command("train")
def train(
    cases: Files,
    out_file: Annotated[Path, typer.Option("--out", help="Where the fitted model goes, as JSON.")],
    reader: Annotated[
        bool,
        typer.Option(
            "--reader",
            help="First teach the shipped reader further: an hour or more; extra `train`.",
        ),
    ] = False,
    further: Annotated[
        Path | None, typer.Option(help="What the reader is trained on: data/further.")
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Teach a new reader instead, from the weights there."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the reader and the folds.")] = 0,
) -> None:
    """Fit the engine's model. The shipped one was fitted on train and train-real; dev only chose its settings.

    Example:
      archqa evidence train data/train.json data/train-real.json --further data/further --out model.json

    With --reader, questions on notes of your own, in the form of data/further, teach the shipped reader further; its
    files are written over.
    """
    if weights and not reader:
        raise CallerError(
            "--weights is for a new reader.\nAdd --reader, which takes hours, or leave --weights out."
        )
    kinds = _kinds(cases)
    pairs = [pair for each in kinds.values() for pair in each]
    known = {f"{kind}/{case.id}": case for kind, each in kinds.items() for case, _ in each}
    taught = further_data.read_corpus(further, known) if further else AuxiliaryCorpus()
    if reader and not taught.alike:
        raise CallerError("There is nothing to train the reader on.\nAdd --further data/further.")
    if reader:
        _train_reader(taught, kinds, weights, seed)
    read = [each.case for some in taught for each in some]
    fitted = regression.train(pairs, further=read, seed=seed, progress=_progress)
    model.save(fitted, out_file)
    print_notice(f"fitted on {len(fitted.fitted_on)} cases: {out_file}")


@app.command("evaluate")
def evaluate(
    cases: Files,
    seed: Annotated[int, typer.Option(help="Of the folds and the resampling.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a file.")] = False,
) -> None:
    """Measure the engine by cross-fit: every case is judged by a model that never saw it. One row a file.

    Example:
      archqa evidence evaluate data/train.json data/train-real.json
    """
    reports = cross_validation.evaluate(_kinds(cases), seed=seed, progress=_progress)
    if as_json:
        print_json([each.model_dump(mode="json") for each in reports])
        return
    console.print(_table(reports))


def _kinds(files: list[Path]) -> LabelledSets:
    stems = [each.stem for each in files]
    alike = [str(each) for each in files if stems.count(each.stem) > 1]
    if alike:
        raise CallerError(
            f"Kinds of cases go by file names, and these share one: {', '.join(alike)}.\nRename one."
        )
    return {path.stem: _labelled(path) for path in files}


def _labelled(path: Path) -> list[LabelledCase]:
    key = tasks.find_key(path)
    if key is None:
        raise CallerError(f"There is no key beside {path}.\nIt should be {path.stem}_key.json.")
    keys = tasks.load_key(key).keys
    return [(case, keys[case.id]) for case in tasks.load_cases(path).notes if case.id in keys]


def _train_reader(
    taught: AuxiliaryCorpus, kinds: LabelledSets, weights: Path | None, seed: int
) -> None:
    from archqa.engine.training import build
    from archqa.engine.training.fine_tuning import TrainingConfig

    if weights is None:
        build.fine_tune_default(taught, TrainingConfig(seed=seed), _progress)
    else:
        build.build_cross_encoder(taught, kinds, weights, TrainingConfig(seed=seed), _progress)


def _progress(what: str, done: int, of: int) -> None:
    err_console.print(f"{what}: {done} of {of}", end="\n" if done == of else "\r")


def _table(reports: tuple[cross_validation.EvaluationReport, ...]) -> Table:
    table = Table(
        title="strict micro F1 by cross-fit over cases, 95 % intervals", title_justify="left"
    )
    for name in (
        "cases",
        "F1",
        "precision",
        "recall",
        "cite everything",
        "cosine",
        "above cosine",
        "ECE",
    ):
        table.add_column(name, justify="left" if name == "cases" else "right")
    for each in reports:
        intervals = (
            each.f1,
            each.precision,
            each.recall,
            each.everything,
            each.cosine,
            each.above_cosine,
        )
        shown = (f"{one.value:.1f} ({one.low:.1f} to {one.high:.1f})" for one in intervals)
        table.add_row(f"{each.kind} ({each.cases})", *shown, f"{each.calibration_error:.3f}")
    return table
