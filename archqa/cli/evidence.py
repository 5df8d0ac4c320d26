"""`archqa evidence train|evaluate`: refit the embedded engine and measure it on unseen cases.

The training code is in the repository and not in the wheel, so it is imported only by the commands.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from archqa import tasks
from archqa.cli import evidence_answers, evidence_links
from archqa.cli.console import console, print_count, print_json, print_notice
from archqa.cli.engine_training import load_labels, require_training_package
from archqa.core.id_lists import list_ids
from archqa.engine import model
from archqa.errors import CallerError
from archqa.safety.storage import storage_errors

if TYPE_CHECKING:
    from archqa.engine.training.auxiliary_corpus import AuxiliaryCorpus
    from archqa.engine.training.cross_validation import EvaluationReport, Interval
    from archqa.engine.training.regression import LabelledCase, LabelledSets

app = typer.Typer(help="The embedded engine's model.", no_args_is_help=True)

CaseFiles = Annotated[
    list[Path], typer.Argument(metavar="CASES...", help="Case files, with their keys next to them.")
]


@app.callback()
def _group() -> None:
    """The embedded engine's model."""


app.command("answers")(evidence_answers.command)
app.command("links")(evidence_links.command)


@app.command("train")
def train(
    cases: CaseFiles,
    out_file: Annotated[Path, typer.Option("--out", help="Output file of the model, as JSON.")],
    cross_encoder: Annotated[
        bool,
        typer.Option(
            "--cross-encoder",
            help="Fine-tune the shipped cross-encoder before: an hour or more; extra `train`.",
        ),
    ] = False,
    auxiliary: Annotated[
        Path | None,
        typer.Option("--auxiliary", help="Auxiliary corpus of the cross-encoder: data/further."),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Train a new cross-encoder from these pretrained weights."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the cross-encoder and of the folds.")] = 0,
    reader: Annotated[bool, typer.Option("--reader", hidden=True)] = False,
    further: Annotated[Path | None, typer.Option("--further", hidden=True)] = None,
) -> None:
    """Fit the engine's model; the shipped one is fitted on train and train-real.

    Example:
      archqa evidence train data/train.json --auxiliary data/further --out model.json

    With --cross-encoder, the shipped cross-encoder is fine-tuned and its files are overwritten.
    The auxiliary corpus may be your own, in the format of data/further.
    """
    require_training_package()
    cross_encoder = cross_encoder or reader
    if weights and not cross_encoder:
        raise CallerError(
            "--weights is for a new cross-encoder.\n"
            "Add --cross-encoder, which takes hours, or leave --weights out."
        )
    # Before the training, which may take hours.
    with storage_errors(out_file):
        out_file.parent.mkdir(parents=True, exist_ok=True)
    labelled_sets = _load_labelled_sets(cases)
    corpus = _load_auxiliary_corpus(auxiliary or further, labelled_sets)
    if cross_encoder:
        _train_cross_encoder(corpus, labelled_sets, weights, seed)
    fitted_cases = _fit_model(labelled_sets, corpus, seed, out_file)
    print_notice(f"fitted on {fitted_cases} cases: {out_file}")


@app.command("evaluate")
def evaluate(
    cases: CaseFiles,
    seed: Annotated[int, typer.Option(help="Seed of the folds and of the resampling.")] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON array, one report for each file.")
    ] = False,
) -> None:
    """Measure the engine by cross-validation over cases, one row for each file.

    Example:
      archqa evidence evaluate data/train.json data/train-real.json
    """
    require_training_package()
    from archqa.engine.training import cross_validation

    labelled_sets = _load_labelled_sets(cases)
    reports = cross_validation.evaluate(labelled_sets, seed=seed, progress=_print_progress)
    if as_json:
        print_json([report.model_dump(mode="json") for report in reports])
        return
    console.print(_report_table(reports))


def _load_labelled_sets(files: list[Path]) -> LabelledSets:
    """Load every file with its key; sets are named after the files, so the names must differ."""
    count_by_name = Counter(file.stem for file in files)
    clashing = [str(file) for file in files if count_by_name[file.stem] > 1]
    if clashing:
        raise CallerError(
            f"Sets of cases are named after their files, and these share a name: "
            f"{list_ids(clashing)}.\nRename all but one of them."
        )
    return {file.stem: _load_labelled_cases(file) for file in files}


def _load_labelled_cases(file: Path) -> list[LabelledCase]:
    _, key_by_case = load_labels(file)
    cases = tasks.load_cases(file).notes
    return [(case, key_by_case[case.id]) for case in cases if case.id in key_by_case]


def _load_auxiliary_corpus(folder: Path | None, labelled_sets: LabelledSets) -> AuxiliaryCorpus:
    from archqa.engine.training.auxiliary_corpus import AuxiliaryCorpus, read_corpus

    if folder is None:
        return AuxiliaryCorpus()
    training_cases = {
        f"{set_name}/{case.id}": case
        for set_name, labelled_cases in labelled_sets.items()
        for case, _ in labelled_cases
    }
    return read_corpus(folder, training_cases)


def _train_cross_encoder(
    corpus: AuxiliaryCorpus, labelled_sets: LabelledSets, weights: Path | None, seed: int
) -> None:
    from archqa.engine.training import build
    from archqa.engine.training.fine_tuning import TrainingConfig

    if not corpus.alike:
        raise CallerError(
            "There is nothing to train the cross-encoder on.\nAdd --auxiliary data/further."
        )
    config = TrainingConfig(seed=seed)
    if weights is None:
        build.fine_tune_default(corpus, config, _print_progress)
    else:
        build.build_cross_encoder(corpus, labelled_sets, weights, config, _print_progress)


def _fit_model(
    labelled_sets: LabelledSets, corpus: AuxiliaryCorpus, seed: int, out_file: Path
) -> int:
    """Fit the regression, write it to `out_file` and return the number of its cases."""
    from archqa.engine.training import regression

    labelled_cases = [pair for pairs in labelled_sets.values() for pair in pairs]
    auxiliary_cases = [labelled.case for labelled in corpus.all_cases()]
    fitted = regression.train(
        labelled_cases, auxiliary_cases=auxiliary_cases, seed=seed, progress=_print_progress
    )
    model.save(fitted, out_file)
    return len(fitted.fitted_on)


def _print_progress(stage: str, done: int, total: int) -> None:
    print_count(f"{stage}: {done} of {total}", is_last=done == total)


def _report_table(reports: tuple[EvaluationReport, ...]) -> Table:
    table = Table(
        title="strict micro F1 by cross-validation over cases, 95 % intervals", title_justify="left"
    )
    table.add_column("cases")
    columns = ("F1", "precision", "recall", "cite everything", "cosine", "above cosine", "ECE")
    for name in columns:
        table.add_column(name, justify="right")
    for report in reports:
        table.add_row(
            f"{report.kind} ({report.cases})",
            _format_interval(report.f1),
            _format_interval(report.precision),
            _format_interval(report.recall),
            _format_interval(report.everything),
            _format_interval(report.cosine),
            _format_interval(report.above_cosine),
            f"{report.calibration_error:.3f}",
        )
    return table


def _format_interval(score: Interval) -> str:
    return f"{score.value:.1f} ({score.low:.1f} to {score.high:.1f})"
