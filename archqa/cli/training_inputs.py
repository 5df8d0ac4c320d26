"""What the commands `archqa evidence …` need: the training code, and labelled cases."""

from importlib.util import find_spec
from pathlib import Path

from archqa import tasks
from archqa.core.key import CaseKey
from archqa.errors import ArchqaError, CallerError

TRAINING_PACKAGE = "archqa.engine.training"


class TrainingNotInstalled(ArchqaError):
    """The package `archqa.engine.training` is absent, as it is in an installed wheel."""

    exit_code = 3

    def __init__(self) -> None:
        super().__init__(
            "The engine's training code is in the archqa repository, not in the installed package: "
            "run this command in a clone of the repository, after `pip install -e '.[train]'`."
        )


def require_training_package() -> None:
    """Raise TrainingNotInstalled where the training code is absent."""
    if find_spec(TRAINING_PACKAGE) is None:
        raise TrainingNotInstalled


def load_labels(case_file: Path) -> tuple[Path, dict[str, CaseKey]]:
    """Return the key file next to `case_file` and its labels by case id. Raises CallerError."""
    key_file = tasks.find_key(case_file)
    if key_file is None:
        raise CallerError(
            f"There is no key next to {case_file}.\nIt should be {case_file.stem}_key.json."
        )
    return key_file, tasks.load_key(key_file).keys
