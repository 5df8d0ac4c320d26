"""Counts the requests that are repeated, so that a failing server does not fill the screen."""

import logging
import re
from collections import Counter

_MAX_REASONS = 10
"""Distinct reasons that are counted by themselves."""

_MESSAGE = re.compile(r"""^\w+\((['"])(.*?)\1[,)]""")
"""The message in the representation of an exception."""


class RetryCounter(logging.Handler):
    """Counts what the library of retries (stamina) logs, by the reason of each retry."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: Counter[str] = Counter()

    def watch(self, *, verbose: bool) -> None:
        """Count from here on. With `verbose`, each retry is also logged by itself."""
        self._counts.clear()
        logger = logging.getLogger("stamina")
        logger.propagate = verbose
        if self not in logger.handlers:
            logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Count one retry."""
        reason = _reason(getattr(record, "stamina.caused_by", ""))
        if reason not in self._counts and len(self._counts) >= _MAX_REASONS:
            reason = "other reasons"
        self._counts[reason] += 1

    def take(self) -> list[str]:
        """Return a sentence for each reason, the most frequent first, and forget them."""
        sentences = []
        for reason, count in self._counts.most_common():
            requests = "1 request was" if count == 1 else f"{count} requests were"
            sentences.append(f"{requests} sent again: {reason}")
        self._counts.clear()
        return sentences


def _reason(exception: str) -> str:
    match = _MESSAGE.match(exception)
    return match[2] if match else "a passing fault"
