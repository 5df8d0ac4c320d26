"""What readers said of training cases they had not seen: the only verdicts the model may be fitted on.

`data/reader_heldout.tsv`: a case's digest, then the log-odds of its sentences. Made by the recipe of the
shipped reader, each case by the reader of the other folds.
"""

from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from archqa.evidence.tables import rows

NAME = "reader_heldout.tsv"


@cache
def heldout() -> dict[str, NDArray[np.float64]]:
    """Log-odds by case digest, each of shape (sentences,)."""
    return {digest: np.array([float(each) for each in logits.split()]) for digest, logits in rows(NAME)}


def write(verdicts: dict[str, NDArray[np.float64]], path: Path) -> None:
    """Writes the file in one move."""
    lines = [f"{digest}\t{' '.join(f'{each:.3f}' for each in logits)}\n" for digest, logits in verdicts.items()]
    draft = path.with_suffix(".draft")
    draft.write_text(
        "# case digest\tlog-odds of each sentence, by a reader that had not seen the case\n" + "".join(lines)
    )
    draft.replace(path)
