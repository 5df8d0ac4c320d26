"""How fast is scoring? `python -m tests.benchmarks.scoring_speed [cases]`, in the repository's folder.

Scores invented notes and answers of the shared task's size with factuality, BLEU, ROUGE-1/2/L/Lsum and SARI, with and
without intervals. The organisers' loop took 10 s for 100 cases on such a machine (2 cores); ours may take 1.5 s of
processor, the imports of the libraries included (tests/scoring/test_scoring_speed.py).
"""

import random
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
IMPORT = "import time; start = time.process_time(); import scoring; print(time.process_time() - start)"
COLD = """
from tests.benchmarks.scoring_speed import cold_seconds
print(cold_seconds({cases}))
"""
METRICS = [
    "overall_factuality_score",
    "bleu",
    "rouge1",
    "rouge2",
    "rougeL",
    "rougeLsum",
    "sari",
]


def main(cases: int = 100) -> None:
    """Print the seconds of the import and of scoring, the best of three."""
    print(f"import scoring: {least_printed(IMPORT):.2f} s of processor")
    cold = least_printed(COLD.format(cases=cases))
    print(
        f"{cases} cases in a new process, with all imports: {cold:.2f} s of processor"
    )
    references, submission = invented(cases)
    for bootstrap in (0, 1000):
        seconds = min(timed(references, submission, bootstrap) for _ in range(3))
        print(
            f"{cases} cases, {bootstrap} resamples, again: {seconds:.2f} s of processor"
        )


def least_printed(code: str, rounds: int = 3) -> float:
    """The least number that the code prints in new processes: other work on the machine only adds to it."""
    return min(_printed(code) for _ in range(rounds))


def cold_seconds(cases: int) -> float:
    """The processor seconds of this process so far, once it has scored: its start and all imports included."""
    references, submission = invented(cases)
    timed(references, submission, 1000)
    return time.process_time()


def _printed(code: str) -> float:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def timed(references: list, submission: list, bootstrap: int) -> float:
    """Processor seconds for one scoring."""
    from scoring.tasks import archehr2025

    start = time.process_time()
    archehr2025.score(submission, references, metrics=METRICS, bootstrap=bootstrap)
    return time.process_time() - start


def invented(cases: int) -> tuple[list, list]:
    """Notes of 24 sentences of 18 words, a 90-word question, answers of 75 words citing five sentences."""
    from scoring.tasks.archehr2025 import Reference

    draw = random.Random(1)
    words = [f"word{number}" for number in range(400)]
    references, submission = [], []
    for case in map(str, range(cases)):
        note = {
            str(number): " ".join(draw.choices(words, k=18)) + "."
            for number in range(24)
        }
        labels = {
            sentence: draw.choice(["essential", "not-relevant", "not-relevant"])
            for sentence in note
        }
        question = " ".join(draw.choices(words, k=90))
        references.append(
            Reference(case, question, note, labels, question, "Why was it done?")
        )
        lines = [
            f"{' '.join(draw.choices(words, k=15))} |{sentence}|"
            for sentence in draw.sample(sorted(note), 5)
        ]
        submission.append({"case_id": case, "answer": "\n".join(lines)})
    return references, submission


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
