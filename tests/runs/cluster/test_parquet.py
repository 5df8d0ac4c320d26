"""A cohort as Parquet is read as the same cohort in JSON Lines is, a part at a time."""

import json
from pathlib import Path

import pytest

from archqa.errors import InputError
from archqa.runs.plan import Selection, Shard
from archqa.runs.predict import predict
from archqa.tasks import load_cases
from tests.fakes.cases import write_synthetic_cases
from tests.runs.cluster.model import obedient

pytestmark = pytest.mark.cluster


def as_parquet(lines: Path, rows_a_group: int = 700) -> Path:
    pytest.importorskip("pyarrow", reason="the extra ray is not installed")
    import pyarrow
    import pyarrow.parquet

    path = lines.with_suffix(".parquet")
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    pyarrow.parquet.write_table(
        pyarrow.Table.from_pylist(rows), path, row_group_size=rows_a_group
    )
    return path


def test_the_cases_are_those_of_the_json_lines_in_any_order(tmp_path: Path) -> None:
    lines = write_synthetic_cases(tmp_path / "cases.jsonl", count=2500, sentences=2)
    there, here = load_cases(as_parquet(lines)), load_cases(lines)
    assert there.ids == here.ids
    assert there.format == "parquet"
    assert tuple(there.cases) == tuple(here.cases)
    for places in ([2499, 0, 1, 1200], [699, 700, 701], range(2400, 100, -500)):
        assert [there.cases[each] for each in places] == [
            here.cases[each] for each in places
        ]
    assert list(there.select(range(3, 2500, 700))) == list(
        here.select(range(3, 2500, 700))
    )


def test_a_run_of_parquet_is_the_run_of_its_json_lines(tmp_path: Path) -> None:
    lines = write_synthetic_cases(tmp_path / "cases.jsonl", count=6, sentences=3)
    parquet = as_parquet(lines)
    runs = [
        predict(each, out=tmp_path / each.suffix[1:], scripted=obedient(), model="fake", cache=False,
                selection=Selection(shard=Shard(2, 2)))
        for each in (lines, parquet)
    ]  # fmt: skip
    assert (runs[0].path / "submission.json").read_bytes() == (
        runs[1].path / "submission.json"
    ).read_bytes()
    assert (runs[0].path / "input.jsonl").read_bytes() == (
        runs[1].path / "input.jsonl"
    ).read_bytes()


def test_mistakes_are_told_by_row_and_what_is_no_parquet_is_refused(
    tmp_path: Path,
) -> None:
    lines = write_synthetic_cases(tmp_path / "cases.jsonl", count=3, sentences=2)
    lines.write_text(lines.read_text().replace('"s3"', '"s1"'))
    with pytest.raises(
        InputError, match=r"cases.parquet:3: the case id is taken by line 1"
    ):
        load_cases(as_parquet(lines))
    (tmp_path / "no.parquet").write_bytes(b"PAR2")
    with pytest.raises(InputError, match="is not a Parquet file"):
        load_cases(tmp_path / "no.parquet")
