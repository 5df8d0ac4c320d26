"""Out-of-fold logits of the training cases: the only ones that the regression may be fitted on.

`data/reader_heldout.tsv` has a case digest and the logits of its sentences. The shipped
cross-encoder was trained on these cases; these logits are by cross-encoders trained in the same
way without the case's fold (`build.fine_tune_by_fold`).
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from archqa.core.tables import read_rows

OUT_OF_FOLD_FILE = "reader_heldout.tsv"
HEADER = "# case digest\tlog-odds of each sentence, by a reader that had not read the case\n"


@cache
def load_out_of_fold_logits() -> dict[str, NDArray[np.float64]]:
    """Return logits of shape (sentences,) by case digest."""
    logits_by_digest = {}
    for digest, logits in read_rows(f"engine/data/{OUT_OF_FOLD_FILE}", 2):
        values = [float(logit) for logit in logits.split()]
        logits_by_digest[digest] = np.array(values)
    return logits_by_digest


def save_out_of_fold_logits(
    logits_by_digest: Mapping[str, NDArray[np.float64]], path: Path
) -> None:
    """Write the file; a reader never sees half of it."""
    lines = [HEADER]
    for digest, logits in logits_by_digest.items():
        formatted = " ".join(f"{logit:.3f}" for logit in logits)
        lines.append(f"{digest}\t{formatted}\n")
    draft = path.with_suffix(".draft")
    draft.write_text("".join(lines), encoding="utf-8")
    draft.replace(path)
