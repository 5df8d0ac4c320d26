"""What readers said of cases they had not read: the only verdicts on them that the regression may be fitted on.

`data/reader_heldout.tsv`: a case's digest, then the log-odds of its sentences. The shipped reader has read these cases;
these verdicts are those of readers made in the same way from the others (`reader_build.closely`).
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from archqa.engine.tables import rows

OUT_OF_FOLD_FILE = "reader_heldout.tsv"


@cache
def load_out_of_fold_logits() -> dict[str, NDArray[np.float64]]:
    """Log-odds by case digest, each of shape (sentences,)."""
    return {
        digest: np.array([float(each) for each in logits.split()])
        for digest, logits in rows(OUT_OF_FOLD_FILE)
    }


def save_out_of_fold_logits(verdicts: Mapping[str, NDArray[np.float64]], path: Path) -> None:
    """Writes the file in one move."""
    lines = [
        f"{digest}\t{' '.join(f'{each:.3f}' for each in logits)}\n"
        for digest, logits in verdicts.items()
    ]
    draft = path.with_suffix(".draft")
    head = "# case digest\tlog-odds of each sentence, by a reader that had not read the case\n"
    draft.write_text(head + "".join(lines), encoding="utf-8")
    draft.replace(path)
