"""Patterns of the word lists in `data/`: `*` stands for letters, ` .. ` for up to three words."""

import re
from functools import cache

_GAP = r"(?:[\s,]+[\w'-]+){0,3}[\s,]+"


@cache
def whole_word_pattern(forms: str) -> re.Pattern[str] | None:
    """Return the pattern of forms that stand between bars, the longest first; None without any."""
    if forms in {"", "-"}:
        return None
    alternatives = sorted(forms.split("|"), key=len, reverse=True)
    joined = "|".join(_as_regex(form) for form in alternatives)
    return re.compile(rf"(?<![\w-])(?:{joined})(?!\w)", re.IGNORECASE)


def _as_regex(form: str) -> str:
    pieces = [_escape(piece) for piece in form.strip().split(" .. ")]
    return _GAP.join(pieces)


def _escape(piece: str) -> str:
    apostrophes = re.escape(piece).replace("'", "['’]")
    return apostrophes.replace(r"\*", r"\w*").replace(r"\ ", r"[\s-]+")
