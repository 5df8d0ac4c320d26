"""How long do a newcomer's first steps take? `python3 -m tests.benchmarks.first_ten_minutes [--from REPOSITORY]`

In a new, empty folder and a new environment: clone, `make run`, ask a note of one's own, answer a table of one's own,
score with a metric of one's own as a plug-in, build the docs, run a notebook. Each step is timed and must do its job;
the exit code is 1 if one fails, or if all together take more than ten minutes. Needs Python, and pip's packages.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[2]
LIMIT_SECONDS = 600

NOTE = """\
HISTORY: A 64 year old teacher with long-standing reflux came in with black stools for two days.
HOSPITAL COURSE: Endoscopy showed a bleeding duodenal ulcer, which was clipped.
Naproxen, which she had taken for her knee, was stopped because of the ulcer.
DISCHARGE: She goes home on pantoprazole 40 mg twice a day.
"""
QUESTION = "Why was the naproxen stopped?"

TABLE = f"""\
import pandas, archqa
table = pandas.DataFrame({{"question": [{QUESTION!r}, "What was found at endoscopy?"], "note": [{NOTE!r}] * 2}})
run = archqa.predict(table, out="table-run")
answered = run.to_pandas()
assert list(answered["status"]) == ["answered", "answered"], answered["status"]
assert all(answered["evidence"]), "an answer without evidence"
"""

METRIC = """\
from dataclasses import dataclass
from typing import Any

from scoring import Metric, TextSample


@dataclass(frozen=True, kw_only=True)
class LinesPerAnswer(Metric[TextSample]):
    name = "lines_per_answer"

    @property
    def width(self) -> int:
        return 2

    def tally(self, case: TextSample) -> tuple[float, ...]:
        return float(len(case.prediction.splitlines())), 1.0

    def value(self, total: Any) -> Any:
        return total[..., 0] / total[..., 1].clip(min=1)
"""
PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "own-metric"
version = "1"
[project.entry-points."archqa.metrics"]
lines_per_answer = "own_metric:LinesPerAnswer"
"""

NOTEBOOK = """\
import nbformat, nbclient
notebook = nbformat.read("examples/notebooks/ask.ipynb", as_version=4)
nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": "examples/notebooks"}}).execute()
assert any(cell.get("outputs") for cell in notebook.cells), "no cell printed anything"
"""


class Step(NamedTuple):
    """A step of a newcomer: shell commands, run in the clone (the first one: outside), and a text they must print."""

    name: str
    commands: str
    printed: str = ""


def steps(repository: str) -> Iterator[Step]:
    """Yield the steps in order."""
    yield Step("clone", f"git clone --quiet '{repository}' archqa")
    yield Step("make run", "make run", "strict_micro_f1")
    ask = f".venv/bin/archqa ask --note own-note.txt '{QUESTION}'"
    yield Step("own note asked", ask, "because of the ulcer")
    yield Step("own DataFrame", ".venv/bin/python own_table.py")
    install = ".venv/bin/python -m pip install --quiet ./own-metric"
    score = ".venv/bin/archqa score mini-run --metric lines_per_answer"
    metric = f"{install} && .venv/bin/archqa predict mini --out mini-run && {score}"
    yield Step("own metric plug-in", metric, "lines_per_answer")
    yield Step("docs built", "make docs && test -s site/index.html")
    kernel = ".venv/bin/python -m pip install --quiet nbclient ipykernel"
    yield Step("notebook run", f"{kernel} && .venv/bin/python own_notebook.py")


def write_own_files(clone: Path) -> None:
    """Write the note, the programs and the plug-in that a newcomer would bring along."""
    package = clone / "own-metric"
    package.mkdir()
    files = {
        clone / "own-note.txt": NOTE,
        clone / "own_table.py": TABLE,
        clone / "own_notebook.py": NOTEBOOK,
        package / "own_metric.py": METRIC,
        package / "pyproject.toml": PROJECT,
    }
    for path, text in files.items():
        path.write_text(dedent(text), encoding="utf-8")


def run_step(step: Step, folder: Path) -> tuple[bool, str]:
    """Run the commands of a step; return whether they did their job, and what they printed."""
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONPATH"
    }
    done = subprocess.run(
        ["bash", "-c", step.commands],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode == 0 and step.printed in done.stdout, done.stdout


def main() -> int:
    """Time every step in a new folder; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--from", dest="repository", default=str(REPOSITORY), metavar="REPOSITORY"
    )
    repository = parser.parse_args().repository
    total = 0.0
    with tempfile.TemporaryDirectory() as outside:
        clone = Path(outside) / "archqa"
        for step in steps(repository):
            start = time.monotonic()
            is_done, output = run_step(step, clone if clone.exists() else Path(outside))
            seconds = time.monotonic() - start
            total += seconds
            print(
                f"{step.name:20} {seconds:6.1f} s  {'done' if is_done else 'FAILED'}",
                flush=True,
            )
            if not is_done:
                print(output[-4000:])
                return 1
            if step.name == "clone":
                write_own_files(clone)
    print(f"{'all of them':20} {total:6.1f} s  of {LIMIT_SECONDS}")
    return 0 if total <= LIMIT_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
