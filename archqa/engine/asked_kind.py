"""The kind of expression that a short question asks for, and whether a sentence has one.

"When was the drain pulled?" asks for a time. A sentence of the drain without any expression of time
is likely to be on the topic and no answer.
"""

import re
from functools import cache

from archqa.core.tables import read_rows

_YES_OR_NO = re.compile(
    r"\W*(?:is|are|was|were|am|does|do|did|has|have|had|can|could|any|ever)\b", re.IGNORECASE
)


def lacks_asked_kind(question: str, sentence: str) -> bool:
    """Whether the question asks for a number, a time or a reason, and the sentence has none."""
    if _YES_OR_NO.match(question):
        return False
    kinds = [said for asked, said in _kind_patterns() if asked.search(question)]
    return not all(said.search(sentence) for said in kinds)


@cache
def _kind_patterns() -> tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]:
    """Return pairs of patterns: of the question, and of a sentence that can answer it."""
    patterns: dict[str, dict[str, re.Pattern[str]]] = {}
    for kind, role, pattern in read_rows("engine/data/asked_kinds.tsv", 3):
        patterns.setdefault(kind, {})[role] = re.compile(pattern, re.IGNORECASE)
    return tuple((roles["question"], roles["sentence"]) for roles in patterns.values())
