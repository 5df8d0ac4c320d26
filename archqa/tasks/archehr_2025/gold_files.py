"""Finds and reads the keys that ArchEHR-QA is scored against."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from archqa.errors import CallerError, InputError
from archqa.tasks.case_files import find_key, load_key
from archqa.tasks.files.mistakes import printable
from archqa.tasks.key_provenance import ScoredKeys
from archqa.tasks.scoring import ScoringInputs
from archqa.tasks.task import KeyFile


class LabelledCase(Protocol):
    """A reference of either year."""

    @property
    def case_id(self) -> str:
        """The case's id."""

    @property
    def sentences(self) -> Mapping[str, str]:
        """Sentence id → text."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Sentence id → label."""


def resolve_key(inputs: ScoringInputs, data: Path | None) -> KeyFile:
    """The key passed with `--key`, else the one next to the case file. Raises `CallerError`, `InputError`."""
    path = inputs.key or (find_key(data) if data else None)
    if path is not None:
        return load_key(path)
    problem = f"There is no key beside {data}." if data else "There is nothing to score against."
    raise CallerError(f"{problem}\nName it with --key FILE.")


def resolve_second_key(inputs: ScoringInputs, data: Path | None) -> KeyFile | None:
    """A second annotator's key: passed with `--second-key`, else next to the case file.

    Raises `InputError`.
    """
    if inputs.second_key:
        return load_key(inputs.second_key)
    if data is None:
        return None
    for name in (f"{data.stem}_second_key.json", "second_annotation_key.json"):
        path = data.with_name(name)
        if path.is_file():
            return load_key(path)
    return None


def scored_keys(key: KeyFile, references: Iterable[LabelledCase]) -> ScoredKeys:
    """The keys of the scored cases, with the ids of their sentences."""
    sentence_ids = {reference.case_id: tuple(reference.sentences) for reference in references}
    keys = {case_id: key.keys[case_id] for case_id in sentence_ids if case_id in key.keys}
    return ScoredKeys(keys, sentence_ids)


def check_second_key_sentences(
    second_key: KeyFile | None,
    references: Sequence[LabelledCase],
    second_references: Iterable[LabelledCase],
) -> None:
    """Raise `InputError` where a second key labels sentences that the case does not have."""
    if second_key is None:
        return
    sentences = {
        reference.case_id: reference.sentences.keys() | reference.labels.keys()
        for reference in references
    }
    errors = []
    for reference in second_references:
        case_sentences = sentences.get(reference.case_id)
        if case_sentences is None:
            continue
        for sentence_id in reference.labels:
            if sentence_id not in case_sentences:
                errors.append(
                    f": case {printable(reference.case_id)}: labels {printable(sentence_id)}, "
                    "which the note has not."
                )
    if errors:
        raise InputError(
            second_key.path,
            errors,
            "Name the second reader's key of these cases with --second-key.",
        )
