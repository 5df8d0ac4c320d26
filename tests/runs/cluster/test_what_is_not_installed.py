"""Without the extra, each part that needs it says so in one sentence, before anything is written."""

import subprocess
import sys
from pathlib import Path

import pytest

from archqa.errors import CallerError, MissingExtra
from archqa.llm.postgres import PostgresCache
from archqa.llm.scripted import ScriptedModel
from archqa.runs.predict import predict
from archqa.tasks import load_cases


@pytest.mark.parametrize("name", ["ray", "pyarrow", "psycopg_pool"])
def test_what_is_missing_is_named_with_the_way_to_get_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "cases.parquet").write_bytes(b"PAR1")
    ways = {
        "ray": lambda: predict(
            "mini", out=tmp_path / "run", pipeline="embedded", runner="ray"
        ),
        "pyarrow": lambda: load_cases(tmp_path / "cases.parquet"),
        "psycopg_pool": lambda: PostgresCache("postgresql://somewhere/archqa"),
    }
    with pytest.raises(
        MissingExtra,
        match=r"is not installed.\nInstall it with: pip install 'archqa\[ray\]'",
    ):
        ways[name]()
    assert not (tmp_path / "run").exists()


def test_a_local_run_imports_nothing_of_the_extra() -> None:
    program = "import sys, archqa.cli.main; print([m for m in ('ray', 'pyarrow', 'psycopg') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_runner_that_is_none_and_a_script_on_a_cluster_are_refused(
    tmp_path: Path,
) -> None:
    with pytest.raises(CallerError, match=r"runner: Input should be 'local' or 'ray'"):
        predict("mini", out=tmp_path / "run", runner="slurm")
    with pytest.raises(CallerError, match="scripted model works in this process alone"):
        predict("mini", out=tmp_path / "run", runner="ray", scripted=ScriptedModel([]))
