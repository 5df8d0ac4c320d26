"""`archqa evidence questions`: train the tagger of questions to a record, or measure it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from archqa.cli.console import print_notice
from archqa.cli.engine_training import require_training_package


def command(
    files: Annotated[
        list[Path], typer.Argument(help="Training questions: data/further/paraphrases*.tsv.")
    ],
    encoder: Annotated[bool, typer.Option(help="Write the encoder's graph anew as well.")] = False,
    held_out: Annotated[
        Path | None, typer.Option(help="Train on the other files and measure on this one alone.")
    ] = None,
) -> None:
    """Train the question tagger, calibrate it out of fold and overwrite its shipped files.

    Minutes on two cores; needs the extra `train`.

    Example:
      archqa evidence questions data/further/paraphrases*.tsv
    """
    require_training_package()
    from archqa.cli.tagger_corpus import frames_of, parts_of, tagger_examples
    from archqa.engine.training import tagger_build
    from archqa.query.paraphrase.examples import read_corpus

    if encoder:
        tagger_build.write_encoder()
    corpus = read_corpus(files)
    print_notice(
        f"{len(corpus.examples)} questions; dropped: {corpus.unread} whose label the grammar does "
        f"not read, {corpus.renamed} with other names than their label."
    )
    examples = tagger_examples(corpus)
    frames = frames_of(corpus)
    if held_out is not None:
        others = [each for each in examples if each.source != held_out.stem]
        unseen = [each for each in examples if each.source == held_out.stem]
        print_notice(tagger_build.measure_on(others, unseen, frames, parts_of))
        return
    print_notice(tagger_build.build_tagger(examples, frames, parts_of))
