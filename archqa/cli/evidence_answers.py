"""`archqa evidence answers`: train the network that answers short questions about notes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from archqa.cli.console import print_count, print_notice
from archqa.cli.engine_training import require_training_package


def command(
    reports: Annotated[
        Path, typer.Option(help="Texts of transcribed reports: a gzipped JSON list of file, text.")
    ],
    auxiliary: Annotated[
        Path, typer.Option(help="Folder of questions and notes: data/further.")
    ] = Path("data/further"),
    seed: Annotated[int, typer.Option(help="Seed of the training.")] = 0,
) -> None:
    """Train, export and calibrate the answer finder; its shipped files are overwritten.

    Seven minutes on a GPU, some three hours on two cores (not measured); needs the extra `train`.

    Example:
      archqa evidence answers --reports mtsamples.json.gz
    """
    require_training_package()
    from archqa.engine.training import answer_build, answer_training
    from archqa.engine.training.asked_corpus import read_asked_corpus, read_held_out

    questions = read_asked_corpus(auxiliary, reports)
    held_out = read_held_out(auxiliary, reports)
    config = answer_training.CONFIG._replace(seed=seed)
    settings = answer_build.build_answer_finder(questions, held_out, config, _print_progress)
    print_notice(f"trained on {len(questions)} questions; {settings.provenance}.")


def _print_progress(stage: str, done: int, total: int) -> None:
    print_count(f"{stage}: {done} of {total}", is_last=done == total)
