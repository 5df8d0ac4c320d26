"""What indexing notes and asking cost by the number of patients: python -m tests.benchmarks.note_index

Each patient has 200 notes of 12 sentences, most of them copied forward. The vectors of the sentences
are random (the encoder's time does not depend on the record); those of the question are the encoder's.
The record is made in a temporary folder (about 0.3 MB a patient), 1,000 patients unless another
number is named.
"""

import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import archqa
from archqa.chart.note_index import index_notes
from archqa.fhir import Store
from archqa.settings import Settings
from tests.chart.charts import note

NOTES, SENTENCES = 200, 12
STEPS = (1, 10, 100, 1000)
QUESTIONS = (
    "Why was metoprolol stopped?",
    "Where does she live now?",
    "What did the echo show, and does she still have an implant?",
)
WORDS = (
    *(
        "metoprolol",
        "stopped",
        "started",
        "rash",
        "echo",
        "normal",
        "lives",
        "sister",
        "niece",
    ),
    *(
        "home",
        "cardiology",
        "visit",
        "pain",
        "knee",
        "sleeps",
        "well",
        "daily",
        "dose",
        "raised",
    ),
    *(
        "lowered",
        "potassium",
        "low",
        "high",
        "weight",
        "implant",
        "removed",
        "left",
        "right",
        "arm",
    ),
)


def main(patients: int) -> None:
    """Print the cost of the index and of a question for 1, 10, 100, … patients."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.db"
        done = 0
        for step in [step for step in STEPS if step <= patients]:
            index_seconds, sentences = _add(path, range(done, step))
            done = step
            seconds = _question_seconds(path)
            print(
                f"{step:5} patients: {1e6 * index_seconds / sentences:5.0f} µs a sentence to index "
                f"(without the encoder), {1e3 * seconds:5.0f} ms a question, "
                f"{path.stat().st_size / 1e6 / step:.2f} MB a patient"
            )


def _add(path: Path, numbers: range) -> tuple[float, int]:
    """Load and index patients; return the seconds of indexing and the number of sentences."""
    with Store.open(path, create=True) as store:
        for number in numbers:
            file = path.with_name("patient.ndjson")
            file.write_text("".join(_patient(number)))
            store.load([file])
    start = time.perf_counter()
    report = index_notes(path, _random_vectors)
    return time.perf_counter() - start, report.sentences


def _patient(number: int) -> Iterator[str]:
    chance = random.Random(number)
    yield json.dumps({"resourceType": "Patient", "id": f"p{number}"}) + "\n"
    copied = [_sentence(chance) for _ in range(SENTENCES - 1)]
    for i in range(NOTES):
        text = "\n".join([*copied, _sentence(chance)])
        date = f"{2000 + i // 12}-{1 + i % 12:02}-01"
        yield json.dumps(note(f"d{number}-{i}", text, date, f"p{number}")) + "\n"


def _sentence(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=9)).capitalize() + "."


def _random_vectors(texts: list[str]) -> NDArray[Any]:
    vectors = np.random.default_rng(len(texts)).normal(size=(len(texts), 384))
    unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit.astype(np.float32)


def _question_seconds(path: Path) -> float:
    """Return the median seconds of a question when all is warm."""
    now = datetime(2020, 1, 1)
    archqa.ask(QUESTIONS[0], patient="p0", record=path, settings=Settings(), now=now)
    times = []
    for question in QUESTIONS * 3:
        start = time.perf_counter()
        archqa.ask(question, patient="p0", record=path, settings=Settings(), now=now)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else STEPS[-1])
