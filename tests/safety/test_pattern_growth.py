"""No regular expression takes time that grows faster than its input."""

import json
import subprocess
import sys

import pytest

from tests.safety.pattern_growth import ROOT


@pytest.mark.parametrize(
    "every", [40, pytest.param(1, marks=pytest.mark.long, id="all")]
)
def test_no_pattern_grows_faster_than_its_input(every: int) -> None:
    """Blanks after `<` in a note took 36.8 s, a `Prefer` header of 60,000 blanks 15 s."""
    result = subprocess.run(
        [sys.executable, "-m", "tests.safety.pattern_growth", str(every)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    report = json.loads(result.stdout.splitlines()[-1])
    assert report["patterns"] > 800
    assert report["growing"] == []
