"""The commands: `python -m training evidence|links|answers fit`, and `evaluate` of the first two."""

import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from archqa import tasks
from archqa.cli.console import (
    console,
    print_count,
    print_error,
    print_json,
    print_notice,
)
from archqa.core.id_lists import list_ids
from archqa.core.key import CaseKey
from archqa.engine import DATA_DIR as ENGINE_DATA
from archqa.engine.answer_linking import LINKER_FILE, default_linker
from archqa.errors import ArchqaError, CallerError
from archqa.safety.files import storage_errors
from archqa.tasks import archehr_2026
from training import corpora, cross_validation, linker, regression
from training.corpora import AuxiliaryCorpus
from training.cross_validation import EvaluationReport, Interval
from training.linker import AnsweredCase, LinkingExample, LinkingScores
from training.regression import LabelledSets

NETWORK_PACKAGES = ("torch", "safetensors", "onnx")
MAX_FOLDS = 8
"""Folds of the linker's cross-validation."""

app = typer.Typer(
    help="Fit the embedded engine, and measure it on cases it was not fitted on.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
evidence = typer.Typer(help="The selection of evidence.", no_args_is_help=True)
links = typer.Typer(help="The linker of subtask 4 (2026).", no_args_is_help=True)
answers = typer.Typer(
    help="The answer finder of `archqa ask --note`.", no_args_is_help=True
)
app.add_typer(evidence, name="evidence")
app.add_typer(links, name="links")
app.add_typer(answers, name="answers")

CaseFiles = Annotated[
    list[Path],
    typer.Argument(
        metavar="CASES...", help="Case files, with their keys next to them."
    ),
]


class MissingPackages(ArchqaError):
    """The packages that networks are trained with are not installed."""

    exit_code = 3


@app.callback()
def _group() -> None:
    """Fit the embedded engine, and measure it on cases it was not fitted on."""


@answers.callback()
def _answers_group() -> None:
    """The answer finder of `archqa ask --note`."""


@evidence.command("fit")
def fit_evidence(
    cases: CaseFiles,
    out_file: Annotated[
        Path, typer.Option("--out", help="Output file of the model, as JSON.")
    ],
    cross_encoder: Annotated[
        bool,
        typer.Option(
            "--cross-encoder",
            help="Fine-tune the shipped cross-encoder first: an hour or more; needs torch.",
        ),
    ] = False,
    auxiliary: Annotated[
        Path | None,
        typer.Option(
            "--auxiliary", help="Auxiliary corpus of the cross-encoder: training/data."
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Train a new cross-encoder from these pretrained weights.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Seed of the cross-encoder and of the folds.")
    ] = 0,
) -> None:
    """Fit the engine's regression; the shipped one is fitted on train and train-real.

    Example:
      python -m training evidence fit data/train.json data/train-real.json
        --auxiliary training/data --out model.json

    With --cross-encoder, the shipped cross-encoder is fine-tuned and its files are overwritten.
    The auxiliary corpus may be your own, in the format of training/data.
    """
    if weights and not cross_encoder:
        raise CallerError(
            "--weights is for a new cross-encoder.\n"
            "Add --cross-encoder, which takes hours, or leave --weights out."
        )
    # Before the training, which may take hours.
    with storage_errors(out_file):
        out_file.parent.mkdir(parents=True, exist_ok=True)
    labelled_sets = load_labelled_sets(cases)
    corpus = AuxiliaryCorpus()
    if auxiliary is not None:
        training_cases = {}
        for set_name, labelled_cases in labelled_sets.items():
            for case, _ in labelled_cases:
                training_cases[f"{set_name}/{case.id}"] = case
        corpus = corpora.read_auxiliary_corpus(auxiliary, training_cases)
    if cross_encoder:
        _train_cross_encoder(corpus, labelled_sets, weights, seed)
    fitted = regression.train(
        [
            labelled
            for labelled_cases in labelled_sets.values()
            for labelled in labelled_cases
        ],
        auxiliary_cases=[labelled.case for labelled in corpus.all_cases()],
        seed=seed,
        progress=_print_progress,
    )
    regression.save_model(fitted, out_file)
    print_notice(f"fitted on {len(fitted.fitted_on)} cases: {out_file}")


def _train_cross_encoder(
    corpus: AuxiliaryCorpus,
    labelled_sets: LabelledSets,
    weights: Path | None,
    seed: int,
) -> None:
    if not corpus.similar:
        raise CallerError(
            "There is nothing to train the cross-encoder on.\nAdd --auxiliary training/data."
        )
    require_network_packages()
    from training import cross_encoder
    from training.fine_tuning import TrainingConfig

    config = TrainingConfig(seed=seed)
    if weights is None:
        cross_encoder.fine_tune_default(corpus, config, _print_progress, ENGINE_DATA)
    else:
        cross_encoder.build_cross_encoder(
            corpus,
            labelled_sets,
            weights,
            config,
            _print_progress,
            ENGINE_DATA,
            regression.OUT_OF_FOLD_FILE,
        )


@evidence.command("evaluate")
def evaluate_evidence(
    cases: CaseFiles,
    seed: Annotated[
        int, typer.Option(help="Seed of the folds and of the resampling.")
    ] = 0,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print a JSON array, one report for each file."),
    ] = False,
) -> None:
    """Measure the selection of evidence by cross-validation over cases, one row for each file.

    Example:
      python -m training evidence evaluate data/train.json data/train-real.json
    """
    labelled_sets = load_labelled_sets(cases)
    reports = cross_validation.evaluate(
        labelled_sets, seed=seed, progress=_print_progress
    )
    if as_json:
        print_json([report.model_dump(mode="json") for report in reports])
    else:
        console.print(_report_table(reports))


def _report_table(reports: tuple[EvaluationReport, ...]) -> Table:
    table = Table(
        title="strict micro F1 by cross-validation over cases, 95 % intervals",
        title_justify="left",
    )
    table.add_column("cases")
    columns = (
        "F1",
        "precision",
        "recall",
        "cite everything",
        "cosine",
        "above cosine",
        "ECE",
    )
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


@links.command("fit")
def fit_links(cases: CaseFiles) -> None:
    """Fit the linker on these cases and replace the shipped one.

    Example:
      python -m training links fit data/train.json data/train-real.json
    """
    examples = _load_linking_examples(cases)
    regression.save_model(linker.train(examples), LINKER_FILE)
    print_notice(f"fitted on {len(examples)} cases; written to {LINKER_FILE}")


@links.command("evaluate")
def evaluate_links(
    cases: CaseFiles,
    cross_fit: Annotated[
        bool,
        typer.Option(
            "--cross-fit", help="Score every case by a linker fitted on the others."
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object.")
    ] = False,
) -> None:
    """Micro F1 of linking clinicians' answers to their notes, compared with similarity alone.

    Example:
      python -m training links evaluate data/dev.json
    """
    examples = _load_linking_examples(cases)
    shipped = default_linker()
    if cross_fit:
        probabilities = linker.cross_fit(examples, folds=min(MAX_FOLDS, len(examples)))
    else:
        probabilities = [shipped.probabilities(example.table) for example in examples]
    scores = linker.evaluate_links(examples, probabilities, shipped)
    if as_json:
        print_json(scores._asdict())
    else:
        console.print(_link_table(scores))


def _load_linking_examples(files: list[Path]) -> list[LinkingExample]:
    answered_cases: list[AnsweredCase] = []
    for file in files:
        key_file, key_by_case = _load_labels(file)
        cases = tasks.load_cases(file, archehr_2026.EVIDENCE_ALIGNMENT)
        for case in tasks.with_clinician_answers(cases, key_file).notes:
            if case.id in key_by_case:
                sentences = tasks.clinician_sentences(key_by_case[case.id])
                answered_cases.append((case, sentences))
    examples = linker.build_examples(answered_cases)
    if not examples:
        raise CallerError(
            "None of these cases has an answer with citations.\n"
            "A key has them in its field `clinician_answer`."
        )
    return examples


def _link_table(scores: LinkingScores) -> Table:
    table = Table(
        title=f"{scores.cases} cases, {scores.links} links; micro, percent",
        title_justify="left",
    )
    table.add_column("", justify="left")
    for name in ("precision", "recall", "F1"):
        table.add_column(name, justify="right")
    table.add_row(
        "the linker",
        f"{scores.precision:.1f}",
        f"{scores.recall:.1f}",
        f"{scores.f1:.1f}",
        style="bold",
    )
    table.add_row("the most similar sentence", "", "", f"{scores.most_similar_f1:.1f}")
    table.add_row("every link", "", "", f"{scores.everything_f1:.1f}")
    return table


@answers.command("fit")
def fit_answers(
    reports: Annotated[
        Path,
        typer.Option(
            help="Texts of transcribed reports: a gzipped JSON list of file, text."
        ),
    ],
    questions: Annotated[
        Path, typer.Option(help="Folder of short questions and their notes.")
    ] = corpora.DATA_DIR,
    seed: Annotated[int, typer.Option(help="Seed of the training.")] = 0,
) -> None:
    """Train, export and calibrate the answer finder; its shipped files are overwritten.

    Seven minutes on a GPU, some three hours on two cores (not measured); needs torch.

    Example:
      python -m training answers fit --reports mtsamples.json.gz
    """
    training_questions = corpora.read_short_questions(questions, reports)
    calibration_questions = corpora.read_calibration_questions(questions, reports)
    require_network_packages()
    from training import answer_finder

    settings = answer_finder.build_answer_finder(
        training_questions,
        calibration_questions,
        answer_finder.CONFIG._replace(seed=seed),
        _print_progress,
    )
    print_notice(
        f"trained on {len(training_questions)} questions; {settings.provenance}."
    )


def load_labelled_sets(files: list[Path]) -> LabelledSets:
    """Load every file with its key; sets are named after the files, so the names must differ."""
    count_by_name = Counter(file.stem for file in files)
    clashing = [str(file) for file in files if count_by_name[file.stem] > 1]
    if clashing:
        raise CallerError(
            f"Sets of cases are named after their files, and these share a name: "
            f"{list_ids(clashing)}.\nRename all but one of them."
        )
    labelled_sets = {}
    for file in files:
        _, key_by_case = _load_labels(file)
        cases = tasks.load_cases(file).notes
        labelled_sets[file.stem] = [
            (case, key_by_case[case.id]) for case in cases if case.id in key_by_case
        ]
    return labelled_sets


def _load_labels(case_file: Path) -> tuple[Path, dict[str, CaseKey]]:
    """Return the key file next to `case_file` and its labels by case id. Raises CallerError."""
    key_file = tasks.find_key(case_file)
    if key_file is None:
        raise CallerError(
            f"There is no key next to {case_file}.\nIt should be {case_file.stem}_key.json."
        )
    return key_file, tasks.load_key(key_file).keys


def require_network_packages() -> None:
    """Raise MissingPackages unless everything that a network is trained with is installed."""
    missing = [package for package in NETWORK_PACKAGES if find_spec(package) is None]
    if missing:
        raise MissingPackages(
            f"Training a network needs {', '.join(missing)}.\n"
            "Install them with: pip install --group train"
        )


def _print_progress(stage: str, done: int, total: int) -> None:
    print_count(f"{stage}: {done} of {total}", is_last=done == total)


def run() -> None:
    """Run the command line: an expected error becomes one message and its exit code."""
    try:
        app()
    except ArchqaError as error:
        print_error(error)
        sys.exit(error.exit_code)
