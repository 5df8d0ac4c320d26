"""The libraries of the engine report nothing to their makers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ASK = ["-m", "archqa", "ask", "Why was aspirin given?", "--note", "-"]


@pytest.mark.parametrize("setting", [None, "0"])
def test_the_engine_leaves_no_device_id_and_no_events_to_send(
    setting: str | None, tmp_path: Path
) -> None:
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    environment.pop("ORT_DISABLE_TELEMETRY", None)
    if setting is not None:
        environment["ORT_DISABLE_TELEMETRY"] = setting
    environment["PYTHONPATH"] = str(ROOT)
    note = b"He was given aspirin for chest pain."
    command = [sys.executable, *ASK]
    completed = subprocess.run(
        command, input=note, capture_output=True, env=environment
    )
    assert completed.returncode == 0, completed.stderr
    names = {path.name for path in tmp_path.rglob("*")}
    assert names.isdisjoint({"Microsoft", "deviceid", "onnxruntime.db"})
