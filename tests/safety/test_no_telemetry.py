"""The library that runs the engine's networks reports nothing about their use to its makers."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_engine_keeps_no_events_to_report(tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("He was given furosemide for edema. He slept.")
    home = tmp_path / "home"
    places = {"HOME": str(home), "XDG_CONFIG_HOME": str(home), "XDG_CACHE_HOME": str(home)}
    unset = {"ORT_DISABLE_TELEMETRY"}
    kept = {name: value for name, value in os.environ.items() if name not in unset}
    result = subprocess.run(
        [sys.executable, "-m", "archqa", "ask", "Why furosemide?", "--note", str(note)],
        cwd=tmp_path,
        env={**kept, **places, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    written = [path.name for path in home.rglob("*") if path.is_file()]
    assert not [name for name in written if "onnxruntime" in name or "deviceid" in name]
