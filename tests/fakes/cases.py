"""Synthetic cases: many, all different, about nothing. For measurements and kills, never for quality."""

import random
from collections.abc import Iterator
from pathlib import Path

from archqa.core.case import Case, Sentence
from archqa.tasks import find

_WORDS = (
    "stent",
    "fever",
    "culture",
    "heparin",
    "swelling",
    "dialysis",
    "fracture",
    "steroid",
    "drain",
    "sodium",
    "wound",
)


def synthetic_cases(count: int, sentences: int = 23, seed: int = 7) -> Iterator[Case]:
    """So many cases of so many sentences of about twelve words; the same for the same seed."""
    dice = random.Random(seed)
    for number in range(1, count + 1):
        rows = (
            Sentence(id=str(place), text=_sentence(dice))
            for place in range(1, sentences + 1)
        )
        question = f"Why the {dice.choice(_WORDS)} ({number})?"
        yield Case(
            id=f"s{number}",
            patient_narrative=question,
            clinician_question=question,
            sentences=tuple(rows),
        )


def write_synthetic_cases(path: Path, count: int, sentences: int = 23) -> Path:
    """The cases as a file of JSON Lines."""
    with path.open("w", encoding="utf-8") as file:
        dump = find("archehr-2025").dump_line
        file.writelines(f"{dump(case)}\n" for case in synthetic_cases(count, sentences))
    return path


def _sentence(dice: random.Random) -> str:
    return f"{' '.join(dice.choices(_WORDS, k=dice.randint(8, 16))).capitalize()}."
