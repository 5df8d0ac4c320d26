"""In which order the essential sentences stand in a reference.

The published 2025 scorer walks over a Python set of ids, whose order changes with every process: BLEU, SARI, ROUGE-L
and the neural metrics move with it. `note` keeps the key's order and is reproducible; `hash:SEED` is what the
published script does when PYTHONHASHSEED is SEED (CPython 3.11 and later hash and fill sets alike).
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
    """Case id → its sentence ids in the order asked for (`note` or `hash:SEED`).

    Raises ScoringError for any other order.
    """
    if order == "note":
        return {case_id: list(sentence_ids) for case_id, sentence_ids in ids.items()}
    seed = re.fullmatch(r"hash:(\d{1,10})", order)
    if not seed or int(seed[1]) >= 2**32:
        raise ScoringError(
            f"reference order {order!r} is not known; use note, or hash:SEED with SEED from 0 to 4294967295."
        )
    sentence_ids = tuple(map(tuple, ids.values()))
    return dict(zip(ids, _set_orders(sentence_ids, seed[1]), strict=True))


@lru_cache(maxsize=8)
def _set_orders(ids: tuple[tuple[str, ...], ...], seed: str) -> list[list[str]]:
    # A process fixes its hash seed at start-up, so another one has to be asked.
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    command = [sys.executable, "-S", "-c", _SET_ORDER]
    process = subprocess.run(
        command, input=json.dumps(ids), capture_output=True, text=True, env=environment, check=True
    )
    orders: list[list[str]] = json.loads(process.stdout)
    return orders
