"""The order of the essential sentences in a reference.

The published 2025 scorer iterates over a Python set of ids, whose order changes with every process
and changes BLEU, SARI, ROUGE-L and the neural metrics. `note` keeps the key's order and is
reproducible; `hash:SEED` is the order of the published script when PYTHONHASHSEED is SEED (the same
in CPython 3.11 and later).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache

from .errors import ScoringError

_SET_ORDER = (
    "import json, sys; json.dump([list(set(ids)) for ids in json.load(sys.stdin)], sys.stdout)"
)


def order_ids(ids: Mapping[str, Sequence[str]], order: str) -> dict[str, list[str]]:
    """Case id → its sentence ids in the requested order (`note` or `hash:SEED`).

    Raises ScoringError for any other order.
    """
    if order == "note":
        return {case_id: list(sentence_ids) for case_id, sentence_ids in ids.items()}
    seed = re.fullmatch(r"hash:(\d{1,10})", order)
    if not seed or int(seed[1]) >= 2**32:
        remedy = "use note, or hash:SEED with SEED from 0 to 4294967295"
        raise ScoringError(f"reference order {order!r} is not known; {remedy}.")
    sentence_ids = tuple(map(tuple, ids.values()))
    orders = _set_orders(sentence_ids, seed[1])
    return dict(zip(ids, orders, strict=True))


@lru_cache(maxsize=8)
def _set_orders(ids: tuple[tuple[str, ...], ...], seed: str) -> list[list[str]]:
    # A process fixes its hash seed when it starts, so another process must compute the order.
    process = subprocess.run(
        [sys.executable, "-S", "-c", _SET_ORDER],
        input=json.dumps(ids),
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    orders: list[list[str]] = json.loads(process.stdout)
    return orders
