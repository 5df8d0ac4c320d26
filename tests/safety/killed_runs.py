"""Kills runs at every operation on their files, resumes each, and compares the predictions.

    python -m tests.safety.killed_runs FOLDER STRIDE

A run is a forked process that ends, without any clean-up, right before its N-th operation or in
the middle of its N-th write; N grows by 1 while the folder is made, then by STRIDE. Prints one JSON
object.
"""

import builtins
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from archqa.llm.scripted import ScriptedModel
from archqa.runs.plan import Selection
from archqa.runs.predict import predict
from tests.runs.conftest import default_reply

KILLED = 137
OPERATIONS = ("open", "mkdir", "rename", "replace", "unlink", "fsync", "ftruncate")
OPERATIONS_OF_THE_START = 18


class Killer:
    """Counts the operations on what lies in a folder; the last one does not happen."""

    def __init__(self, last: int, folder: Path) -> None:
        self._left = last
        self._folder = str(folder)

    def strike(self, target: Any) -> None:
        if self._concerns(target):
            self._left -= 1
            if self._left == 0:
                os._exit(KILLED)

    def is_near(self, target: Any) -> bool:
        return self._left == 1 and self._concerns(target)

    def _concerns(self, target: Any) -> bool:
        path = (
            Path(f"/proc/self/fd/{target}").readlink()
            if isinstance(target, int)
            else target
        )
        return os.fspath(path).startswith(self._folder)


def install(killer: Killer) -> None:
    for name in OPERATIONS:
        setattr(os, name, deadly(killer, getattr(os, name)))
    builtins.open = io.open = deadly(killer, builtins.open)  # type: ignore[assignment]
    write = os.write

    def deadly_write(descriptor: int, content: Any) -> int:
        killer.strike(descriptor)
        if killer.is_near(descriptor):
            write(descriptor, content[: len(content) // 2])
        killer.strike(descriptor)
        return write(descriptor, content)

    os.write = deadly_write  # type: ignore[assignment]


def deadly(killer: Killer, operation: Callable[..., Any]) -> Callable[..., Any]:
    def call(target: Any, *arguments: Any, **options: Any) -> Any:
        killer.strike(target)
        return operation(target, *arguments, **options)

    return call


def run(out: Path) -> None:
    predict(
        "mini",
        out=out,
        resume=True,
        scripted=ScriptedModel(default_reply),
        selection=Selection(limit=2),
        pipeline="dmis",
        cache=False,
        screen="batched",
        experts=False,
        jobs=1,
    )


def in_child(work: Callable[[], None]) -> int:
    """Do the work in a forked process; return its exit code."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        work()
        os._exit(0)
    except BaseException as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stderr.flush()
        os._exit(1)


def killed_at(operation: int, out: Path) -> bool:
    def work() -> None:
        install(Killer(operation, out))
        run(out)

    code = in_child(work)
    assert code in (0, KILLED), f"operation {operation}: exit code {code}"
    return code == KILLED


def main() -> None:
    folder, stride = Path(sys.argv[1]), int(sys.argv[2])
    run(folder / "whole")
    expected = (folder / "whole" / "submission.json").read_bytes()
    kills = 0
    not_resumed, different, leftovers = [], [], []
    operation = 1
    while killed_at(operation, out := folder / str(operation)):
        kills += 1
        if in_child(lambda out=out: run(out)):  # type: ignore[misc]
            not_resumed.append(operation)
        elif (out / "submission.json").read_bytes() != expected:
            different.append(operation)
        leftovers += [path.name for path in out.iterdir() if is_leftover(path)]
        operation += 1 if operation < OPERATIONS_OF_THE_START else stride
    result = {
        "not_resumed": not_resumed,
        "different": different,
        "leftovers": leftovers,
    }
    sys.stdout.write(json.dumps({"kills": kills, **result}))


def is_leftover(path: Path) -> bool:
    return path.name.startswith(".") or path.suffix == ".lock"


if __name__ == "__main__":
    main()
