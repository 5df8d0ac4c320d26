"""Where a key comes from, in words: a file, or reviews, maybe of the very run that is scored."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from archqa.core.key import CaseKey, record_version
from archqa.safety.files import storage_errors

_MAX_NAMES = 4


class ScoredKeys(NamedTuple):
    """The keys of the scored cases, by case, and the ids of each case's sentences."""

    keys: Mapping[str, CaseKey]
    sentence_ids: Mapping[str, Sequence[str]]


class KeyProvenance(NamedTuple):
    """What a key is: a file that archqa knows nothing more of, or one made of reviews.

    from_this_run: the reviewers had an answer of the scored run before them. equals_run: moreover
    every label says what that run had chosen. The counts are of the scored cases.
    """

    path: str
    sha256: str
    kind: Literal["file", "reviews"] = "file"
    reviewers: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    blind: bool = False
    from_this_run: bool = False
    equals_run: bool = False
    cases: int = 0
    cases_from_this_run: int = 0
    reviewed_sentences: int = 0
    unreviewed_sentences: int = 0
    disagreements: int = 0

    @property
    def circular(self) -> bool:
        """Whether a score against this key may measure the run by its own predictions."""
        return self.from_this_run

    def meeting(self, *, equals_run: bool) -> "KeyProvenance":
        """The same with what a comparison of the labels and the run's choices has shown.

        A key of which some labels were set blind is more than an echo of the run.
        """
        all_sighted = self.from_this_run and self.cases_from_this_run == self.cases
        return self._replace(equals_run=all_sighted and equals_run)

    @property
    def statement(self) -> str:
        """One sentence that stands beside every score against this key."""
        name = Path(self.path).name
        if self.kind == "file":
            return f"Scored against the key file {name}."
        labels = (
            f"{_count(self.reviewed_sentences, 'label')} by {_listed(self.reviewers)}"
        )
        seen = f"set while looking at answers of {_listed(self.runs) or 'another run'}"
        if self.blind:
            seen = "set without seeing any answer"
        elif self.from_this_run:
            seen = "set while looking at answers of this very run"
        return f"Scored against reviews ({name}): {labels}, {seen}."

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader of a score against this key must know; empty for a file."""
        if self.kind == "file":
            return ()
        warnings = []
        name = Path(self.path).name
        who = _listed(self.reviewers)
        if self.from_this_run and self.equals_run:
            warnings.append(
                f"THIS IS NO MEASUREMENT: every label of {name} says what this run itself had "
                f"chosen, and {who} set them while looking at it. Label blind, without seeing "
                "its answers, to measure it."
            )
        elif self.from_this_run:
            of_cases = f"{self.cases_from_this_run} of {_count(self.cases, 'case')}"
            warnings.append(
                f"THE KEY IS CIRCULAR: {who} labelled {of_cases} while looking at the answers of "
                "this very run, which flatters it. Label blind, without seeing its answers, to "
                "measure it."
            )
        if self.unreviewed_sentences:
            disputed = ""
            if self.disagreements:
                disputed = f" (on {self.disagreements} of them reviewers disagree)"
            count = _count(self.unreviewed_sentences, "sentence")
            warnings.append(
                f"{count} of the reviewed cases without a label{disputed} do not count: "
                "citing them is neither right nor wrong."
            )
        return tuple(warnings)

    def as_json(self) -> dict[str, Any]:
        """`key` of `scores.json`."""
        return {
            **self._asdict(),
            "reviewers": list(self.reviewers),
            "runs": list(self.runs),
            "circular": self.circular,
            "statement": self.statement,
        }


def key_provenance(
    path: Path, sha256: str, scored: ScoredKeys, run_folders: Sequence[Path]
) -> KeyProvenance:
    """What a key is to the runs that are scored against it; cases without labels do not count."""
    file = KeyProvenance(str(path), sha256)
    labelled = [key for key in scored.keys.values() if key.labels and key.review]
    if not labelled:
        return file
    folder_names = set()
    versions: set[str] = set()
    for folder in run_folders:
        folder_names.add(folder.resolve().name)
        versions |= _record_versions(folder)
    reviewers: dict[str, None] = {}
    runs: dict[str, None] = {}
    blind = True
    own_cases = reviewed = unreviewed = disagreements = 0
    for key in labelled:
        review = key.review
        assert review is not None
        reviewers.update(dict.fromkeys(review.reviewers))
        runs.update(dict.fromkeys(review.runs))
        blind = blind and review.blind
        # A run is known by its folder's name, and by its records where the folder was renamed.
        is_of_run = folder_names.intersection(review.runs) or versions.intersection(
            review.run_versions
        )
        if is_of_run and not review.blind:
            own_cases += 1
        reviewed += len(key.labels)
        unreviewed += len(key.without_label(scored.sentence_ids.get(key.case_id, ())))
        disagreements += review.disagreements
    return file._replace(
        kind="reviews",
        reviewers=tuple(filter(None, reviewers)),
        runs=tuple(filter(None, runs)),
        blind=blind,
        from_this_run=own_cases > 0,
        cases=len(labelled),
        cases_from_this_run=own_cases,
        reviewed_sentences=reviewed,
        unreviewed_sentences=unreviewed,
        disagreements=disagreements,
    )


def _record_versions(run_folder: Path) -> set[str]:
    path = run_folder / "cases.jsonl"
    with storage_errors(path):
        if not path.is_file():
            return set()
        with path.open("rb") as file:
            return {record_version(line) for line in file if line.endswith(b"\n")}


def _listed(names: Sequence[str]) -> str:
    """`Ann, Ben and Cem`; of many names the first few and how many more."""
    first_names = list(names[:_MAX_NAMES])
    if len(names) > _MAX_NAMES:
        first_names.append(f"{len(names) - _MAX_NAMES} more")
    return " and ".join(filter(None, [", ".join(first_names[:-1]), *first_names[-1:]]))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
