"""Compares the numbers of two checkouts: answers byte for byte, scores, and the grades of the FHIR benchmarks.

    python -m tests.benchmarks.same_numbers BEFORE AFTER [--shared ../shared] [--only dev,fhir,medagent]

BEFORE and AFTER are folders of checkouts that the running Python can import. Each part runs in both, with its own cache
and in a process of its own; a line says whether they agree. Exit code 1 if anything differs.
"""

import argparse
import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.fakes.fixed_policy import PolicyServer

Numbers = dict[str, Any]

DEV_METRICS = (
    "strict_micro_precision",
    "strict_micro_recall",
    "strict_micro_f1",
    "rougeLsum",
    "bleu",
    "sari",
)


def main() -> int:
    """Run the chosen parts in both checkouts and print what differs."""
    options = _options()
    differing = 0
    for name in options.only.split(","):
        with tempfile.TemporaryDirectory() as folder:
            before = PARTS[name](
                Checkout(options.before, Path(folder) / "before"), options.shared
            )
            after = PARTS[name](
                Checkout(options.after, Path(folder) / "after"), options.shared
            )
        differing += _print_comparison(name, before, after)
    return 1 if differing else 0


class Checkout:
    """A checkout whose command line is run with a home of its own."""

    def __init__(self, root: Path, work: Path) -> None:
        self.root = root.resolve()
        self.work = work
        self.work.mkdir(parents=True)

    def archqa(self, *arguments: str) -> str:
        """The standard output of `archqa ARGUMENTS`. Raises `CalledProcessError` when it fails."""
        program = "from archqa.cli.main import run; run()"
        return self._run(sys.executable, "-c", program, *arguments)

    def official_grades(self, *arguments: str) -> str:
        """The standard output of `python -m scoring ARGUMENTS`."""
        return self._run(sys.executable, "-m", "scoring", *arguments)

    def _run(self, *command: str) -> str:
        cache = str(self.work / "cache")
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.root),
            "XDG_CACHE_HOME": cache,
        }
        finished = subprocess.run(
            command,
            cwd=self.work,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return finished.stdout


def dev(checkout: Checkout, _: Path) -> Numbers:
    """The 28 development cases by the embedded engine: the submission's SHA-256, and six scores."""
    run = checkout.work / "dev"
    checkout.archqa(
        "predict", str(checkout.root / "data/dev.json"), "--out", str(run), "--quiet"
    )
    metrics = [word for name in DEV_METRICS for word in ("--metric", name)]
    scores = json.loads(checkout.archqa("score", str(run), "--json", *metrics))
    return {
        "submission": _sha256(run / "submission.json"),
        "scores": scores["scores"],
        "intervals": scores["intervals"],
        "signatures": scores["signatures"],
        "baselines": scores["baselines"],
    }


def links(checkout: Checkout, _: Path) -> Numbers:
    """Subtasks 1 and 4 of 2026 on the development cases: the SHA-256 of each submission."""
    data = str(checkout.root / "data/dev.json")
    digests = {}
    for task in ("archehr-2026-st1", "archehr-2026-st4"):
        run = checkout.work / task
        key = ["--set", f"answer_key={checkout.root / 'data/dev_key.json'}"]
        arguments = key if task.endswith("4") else []
        checkout.archqa(
            "predict", data, "--task", task, "--out", str(run), "--quiet", *arguments
        )
        digests[task] = _sha256(run / "submission.json")
    return digests


def fhir(checkout: Checkout, shared: Path) -> Numbers:
    """The 2,522 development questions of FHIR-AgentBench by the grammar: submission and scores."""
    record, run = checkout.work / "record.db", checkout.work / "fhir"
    questions = shared / "fhir/fhir-agentbench/questions_dev.csv"
    checkout.archqa(
        "fhir", "load", str(shared / "fhir/mimic-fhir"), "--into", str(record)
    )
    checkout.archqa(
        "predict", str(questions), "--record", str(record), "--out", str(run), "--quiet"
    )
    scores = json.loads(checkout.archqa("score", str(run), "--json"))
    submission = json.loads((run / "submission.json").read_text(encoding="utf-8"))
    for row in submission:
        row.pop("usage", None)  # Seconds differ from run to run.
    return {
        "submission": _digest(submission),
        "scores": scores["scores"],
        "intervals": scores["intervals"],
    }


def medagent(checkout: Checkout, shared: Path) -> Numbers:
    """The 100 published tasks of MedAgentBench by fixed rules and by silence: grades of both gradings."""
    folder = shared / "fhir/medagentbench"
    record = checkout.work / "medagent.db"
    resources = [str(folder / f"{name}.ndjson") for name in ("Patient", "Observation")]
    checkout.archqa("fhir", "load", *resources, "--into", str(record))
    numbers: Numbers = {}
    with PolicyServer() as policy:
        agents = {
            "policy": policy.arguments,
            "do-nothing": ("--pipeline", "do-nothing"),
        }
        for name, arguments in agents.items():
            run = checkout.work / name
            tasks = ["predict", str(folder / "tasks_v1.json"), "--record", str(record)]
            checkout.archqa(*tasks, *arguments, "--out", str(run), "--quiet")
            score = ("score", str(run), "--record", str(record), "--json")
            graded = json.loads(checkout.archqa(*score))
            numbers[f"{name} submission"] = _sha256(run / "submission.json")
            numbers[f"{name} scores"] = graded["scores"]
            numbers[f"{name} baselines"] = graded["baselines"]
            numbers[f"{name} faults"] = _digest(graded["faults"])
    return numbers


def goldens(checkout: Checkout, shared: Path) -> Numbers:
    """The official submissions in `golden/`, scored as the organisers' flags ask."""
    folder = shared / "golden"
    numbers = {}
    for name in ("plain", "copy", "dup", "edge", "bad"):
        out = checkout.work / f"{name}.json"
        checkout.official_grades(
            "--submission_path", str(folder / f"submission_{name}.json"),
            "--key_path", str(folder / "archehr-qa_key.json"),
            "--data_path", str(folder / "archehr-qa.xml"),
            "--out_file_path", str(out),
        )  # fmt: skip
        numbers[name] = json.loads(out.read_text(encoding="utf-8"))
    return numbers


PARTS: dict[str, Callable[[Checkout, Path], Numbers]] = {
    "dev": dev,
    "links": links,
    "goldens": goldens,
    "fhir": fhir,
    "medagent": medagent,
}


def _print_comparison(part: str, before: Numbers, after: Numbers) -> int:
    differences = list(_differences(before, after))
    for name in differences:
        print(
            f"{part}: {name} DIFFERS\n  before {before.get(name)}\n  after  {after.get(name)}"
        )
    for name in sorted(set(before) - set(differences)):
        print(f"{part}: {name} is the same: {_shortened(before[name])}")
    return len(differences)


def _differences(before: Numbers, after: Numbers) -> Iterator[str]:
    for name in sorted(before.keys() | after.keys()):
        if not _equal(before.get(name), after.get(name)):
            yield name


def _equal(before: Any, after: Any) -> bool:
    """Equal, numbers to twelve places: sums in another order differ in the last bits."""
    if isinstance(before, dict) and isinstance(after, dict):
        return before.keys() == after.keys() and all(
            _equal(before[key], after[key]) for key in before
        )
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(_equal, before, after))
    if isinstance(before, float) and isinstance(after, float):
        return math.isclose(before, after, rel_tol=1e-12, abs_tol=1e-12)
    return bool(before == after)


def _shortened(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 160 else f"{text[:157]}…"


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--shared", type=Path, default=Path("../shared"))
    parser.add_argument(
        "--only", default=",".join(PARTS), help="parts to compare, with commas"
    )
    options = parser.parse_args()
    options.shared = options.shared.resolve()
    return options


if __name__ == "__main__":
    sys.exit(main())
