"""Whether a question asks for a judgement or a prediction, which a record does not hold."""

import re
from functools import cache

from archqa.core.tables import read_rows

_LEAD_IN = re.compile(r"^(?:(?:so|and|but|well|also|please|doctor|doc)\b[\s,]*)+", re.IGNORECASE)
_PERSON = (
    r"(?:i|we|you|he|she|they|it|this|that|(?:my|his|her|our|the|their)\s+\w+(?:\s+\w+)?"
    r"|grand\w+|mom|mum|dad|patient|pt)"
)


def is_judgement(question: str) -> bool:
    """Whether a question asks for advice, a grading or a prediction ("Is it safe to …?").

    A note may still state what its author judged ("may drive after two weeks"), so the caller
    decides whether to decline or to show what the note states.
    """
    text = _LEAD_IN.sub("", " ".join(question.split()))
    return _judgement_pattern().search(text) is not None


@cache
def _judgement_pattern() -> re.Pattern[str]:
    rows = read_rows("asking/data/question_patterns.tsv", 3)
    patterns = [pattern for group, _, pattern in rows if group == "judgement"]
    joined = "|".join(f"(?:{pattern.replace('PERSON', _PERSON)})" for pattern in patterns)
    return re.compile(joined, re.IGNORECASE)
