"""How fast is scoring? `python tests/benchmarks/scoring_speed.py [cases]`: a command, not a timed test.

Scores invented notes and answers of the shared task's size with factuality, BLEU, ROUGE-1/2/L/Lsum and SARI, with and
without intervals. The organisers' loop took 10 s for 100 cases on such a machine (2 cores); the aim is 1.5 s, the
imports of the libraries included. Where scikit-learn is installed (with bert-score), nltk imports it, for 1 s more.
"""

import random
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
IMPORT = (
    "import time; start = time.perf_counter(); import scoring; print(time.perf_counter() - start)"
)
IN_A_NEW_PROCESS = "import scoring_speed; scoring_speed.print_cold_seconds({cases})"
METRICS = ["overall_factuality_score", "bleu", "rouge1", "rouge2", "rougeL", "rougeLsum", "sari"]


def main(cases: int = 100) -> None:
    """Print the seconds of the import and of scoring, the best of three."""
    imports = (
        subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True)
        for _ in range(3)
    )
    print(f"import scoring: {min(float(done.stdout) for done in imports):.2f} s")
    subprocess.run(
        [sys.executable, "-c", IN_A_NEW_PROCESS.format(cases=cases)], cwd=HERE, check=True
    )
    references, submission = invented(cases)
    for bootstrap in (0, 1000):
        seconds = min(timed(references, submission, bootstrap) for _ in range(3))
        print(f"{cases} cases, {bootstrap} resamples: {seconds:.2f} s")


def print_cold_seconds(cases: int) -> None:
    """Print the processor seconds of the first scoring of a process, imports included."""
    references, submission = invented(cases)
    timed(references, submission, 1000)
    print(f"{cases} cases in a new process, with all imports: {time.process_time():.2f} s")


def timed(references: list, submission: list, bootstrap: int) -> float:
    """Seconds for one scoring."""
    from scoring.tasks import archehr2025

    start = time.perf_counter()
    archehr2025.score(submission, references, metrics=METRICS, bootstrap=bootstrap)
    return time.perf_counter() - start


def invented(cases: int) -> tuple[list, list]:
    """Notes of 24 sentences of 18 words, a 90-word question, answers of 75 words citing five sentences."""
    from scoring.tasks.archehr2025 import Reference

    draw = random.Random(1)
    words = [f"word{number}" for number in range(400)]
    references, submission = [], []
    for case in map(str, range(cases)):
        note = {str(number): " ".join(draw.choices(words, k=18)) + "." for number in range(24)}
        labels = {
            sentence: draw.choice(["essential", "not-relevant", "not-relevant"])
            for sentence in note
        }
        question = " ".join(draw.choices(words, k=90))
        references.append(Reference(case, question, note, labels, question, "Why was it done?"))
        lines = [
            f"{' '.join(draw.choices(words, k=15))} |{sentence}|"
            for sentence in draw.sample(sorted(note), 5)
        ]
        submission.append({"case_id": case, "answer": "\n".join(lines)})
    return references, submission


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
