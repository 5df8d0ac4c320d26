"""Sentences of notes that say nothing of their own: what resources hold already, in set phrases."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

_BULLET = re.compile(r"^[\s\-–•*#\d.)]+")
_SEPARATORS = re.compile(r"[,;:]\s|\sand\s")
_LETTER = re.compile(r"[^\W\d_]")
_RESULT = re.compile(r"^(.+?): [<>]?\d[\d.,/]*(?: \S+)?$")
"""A name and a number with its unit, as a list of results has them."""

_NAME = "\x00"
"""Stands for a name that would be split."""

_MIN_TEMPLATE_USES = 3
"""Different sentences that have the same words around names of resources: then a program wrote them."""


def own_texts(texts: Sequence[str], displays: AbstractSet[str]) -> list[int]:
    """Return the indices of the texts that say something of their own.

    Left out are texts without words, such as a date; leads to a list; and what only names
    resources, also in a phrase that other sentences have around other names ("Patient has a history
    of …"). `displays` are the names of the patient's resources in lower case.
    """
    split = [name for name in displays if _SEPARATORS.search(name)]
    whole = sorted(split, key=lambda name: (-len(name), name))
    frames = [_frame(text, displays, whole) for text in texts]
    uses = Counter(frame for frame in frames if frame)
    kept = []
    for index, (text, frame) in enumerate(zip(texts, frames, strict=True)):
        is_template = frame is not None and (not frame or uses[frame] >= _MIN_TEMPLATE_USES)
        if not is_template and _LETTER.search(text) and not text.rstrip().endswith(":"):
            kept.append(index)
    return kept


def _frame(text: str, displays: AbstractSet[str], whole: Sequence[str]) -> str | None:
    """Return the words of a text around names of resources; None if it names none.

    `whole` are the names that have a comma or an "and" in them, the longest first.
    """
    parts = list(_parts(text, whole))
    if (result := _RESULT.match(_folded(text))) and result[1] in displays:
        return ""
    rests = []
    named = 0
    for part in parts:
        rest = _without_display(part, displays)
        named += rest is not None
        rests.append(part if rest is None else rest)
    if not named or named < len(parts) - 1:
        return None
    return " ".join(rest for rest in rests if rest)


def _without_display(part: str, displays: AbstractSet[str]) -> str | None:
    """Return what stands before the name of a resource at the end of a text; None without one."""
    words = part.split()
    if words and words[-1] == _NAME:
        return " ".join(words[:-1])
    for start in range(len(words)):
        if " ".join(words[start:]) in displays:
            return " ".join(words[:start])
    return None


def _parts(text: str, whole: Sequence[str]) -> Iterator[str]:
    folded = _folded(text)
    for name in whole:
        folded = folded.replace(name, _NAME)
    for part in _SEPARATORS.split(folded):
        if part.strip():
            yield part.strip()


def _folded(text: str) -> str:
    """Return a text without bullet, capitals and final full stop."""
    return " ".join(_BULLET.sub("", text).casefold().split()).rstrip(".")
