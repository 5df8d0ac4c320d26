"""Running the engine's networks by onnxruntime: how one is opened, and the workers that all of them share."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TypeVar

import onnxruntime as ort

WORKERS = 2
"""Runs of a network at the same time, each on one core: quicker than one run shared by two cores."""

Task = TypeVar("Task")
Result = TypeVar("Result")


def session(model: Path) -> ort.InferenceSession:
    """One onnxruntime session on the processor, each run of it on the thread that asks for it.

    Its memory arena keeps what the largest input took; without it every run fetches its pages anew.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def at_work(run: Callable[[Task], Result], task: Task) -> Future[Result]:
    """Hands one run of a network to the workers, which all networks share. A run must not wait for another."""
    return _workers().submit(run, task)


@cache
def _workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(WORKERS, "archqa-evidence")
