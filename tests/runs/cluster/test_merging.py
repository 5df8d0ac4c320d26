"""Parts that were run by hand become the run they would have been."""

import json
from pathlib import Path
from typing import Any

import pytest

from archqa.errors import CallerError, InputError
from archqa.runs.merging import merge
from archqa.runs.plan import Selection, Shard
from archqa.runs.predict import predict
from archqa.runs.run import Run
from tests.fakes.cases import write_synthetic_cases
from tests.runs.cluster.model import obedient


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    return write_synthetic_cases(tmp_path / "cases.jsonl", count=7, sentences=3)


def shards(cases: Path, of: int, **settings: object) -> list[Path]:
    return [
        predict(
            cases,
            out=cases.parent / f"part-{number}",
            scripted=obedient(),
            model="fake",
            cache=False,
            selection=Selection(shard=Shard(number, of)),
            **settings,
        ).path
        for number in range(1, of + 1)
    ]


def timeless(run: Run) -> list[dict[str, object]]:
    return [
        record.model_copy(update={"seconds": 0.0}).model_dump()
        for record in run.records
    ]


def test_merged_shards_equal_one_run(cases: Path, tmp_path: Path) -> None:
    whole = predict(
        cases, out=tmp_path / "whole", scripted=obedient(), model="fake", cache=False
    )
    parts = shards(cases, 3)
    merged = merge([parts[2], parts[0], parts[1]], tmp_path / "merged")
    assert (merged.path / "submission.json").read_bytes() == (
        whole.path / "submission.json"
    ).read_bytes()
    assert (merged.path / "input.jsonl").read_bytes() == (
        whole.path / "input.jsonl"
    ).read_bytes()
    assert timeless(merged) == timeless(whole)
    assert merged.complete
    assert merged.manifest.case_ids == whole.manifest.case_ids
    assert merged.manifest.seconds == pytest.approx(
        sum(Run.open(each).manifest.seconds for each in parts)
    )
    assert {each.name for each in (merged.path / "trace").iterdir()} == {
        each.name for each in (whole.path / "trace").iterdir()
    }
    assert merged.path.stat().st_mode & 0o777 == 0o700
    assert {each.stat().st_mode & 0o777 for each in merged.path.rglob("*.json*")} == {
        0o600
    }


def test_a_missing_part_is_told_and_can_be_left_out(
    cases: Path, tmp_path: Path
) -> None:
    one, _, three = shards(cases, 3)
    with pytest.raises(CallerError, match=r"2 of 7 cases are missing: s2, s5") as told:
        merge([one, three], tmp_path / "merged")
    assert "--partial" in str(told.value)
    assert not (tmp_path / "merged").exists()
    merged = merge([one, three], tmp_path / "merged", partial=True)
    assert [row["case_id"] for row in merged.submission()] == [
        "s1",
        "s3",
        "s4",
        "s6",
        "s7",
    ]


def test_a_part_that_stopped_is_told(cases: Path, tmp_path: Path) -> None:
    one, two = shards(cases, 2)
    lines = (two / "cases.jsonl").read_text().splitlines(keepends=True)
    (two / "cases.jsonl").write_text("".join(lines[1:]))
    with pytest.raises(CallerError, match="1 of 7 cases are missing"):
        merge([one, two], tmp_path / "merged")
    merged = merge([one, two], tmp_path / "merged", partial=True)
    assert not merged.complete
    assert merged.manifest.status.value == "stopped"


def test_the_same_part_twice_is_refused(cases: Path, tmp_path: Path) -> None:
    one, _ = shards(cases, 2)
    with pytest.raises(CallerError, match="both have 4 cases: s1, s3, s5, s7"):
        merge([one, one], tmp_path / "merged")


def with_labels(manifest: dict[str, Any], labels: str) -> dict[str, Any]:
    settings = manifest["settings"]
    own = settings["pipelines"][manifest["pipeline"]] | {"labels": labels}
    return {**settings, "pipelines": {manifest["pipeline"]: own}}


def test_parts_of_other_data_settings_or_prompts_are_refused(
    cases: Path, tmp_path: Path
) -> None:
    one, two = shards(cases, 2)
    manifest = json.loads((two / "run.json").read_text())
    for change, named in (
        ({"data": {**manifest["data"], "sha256": "0" * 64}}, "the cases"),
        ({"settings": with_labels(manifest, "multiclass")}, "settings.labels"),
        ({"prompts": {**manifest["prompts"], "decision/v1": "0"}}, "prompts"),
        ({"pipeline": "embedded"}, "pipeline"),
        ({"versions": {**manifest["versions"], "archqa": "0.0.1"}}, "archqa's version"),
    ):
        (two / "run.json").write_text(json.dumps({**manifest, **change}))
        with pytest.raises(CallerError, match=f"not parts of one run: .*{named}"):
            merge([one, two], tmp_path / "merged")


def test_the_pace_and_the_place_of_parts_may_differ(
    cases: Path, tmp_path: Path
) -> None:
    one, two = shards(cases, 2)
    manifest = json.loads((two / "run.json").read_text())
    limits = {**manifest["settings"]["limits"], "jobs": 3, "requests_per_minute": 7}
    other = {"limits": limits, "base_url": "http://elsewhere/v1"}
    (two / "run.json").write_text(
        json.dumps({**manifest, "settings": {**manifest["settings"], **other}})
    )
    assert merge([one, two], tmp_path / "merged").complete


def test_a_case_file_that_has_moved_is_named_and_one_that_changed_is_refused(
    cases: Path, tmp_path: Path
) -> None:
    parts = shards(cases, 2)
    moved = cases.rename(tmp_path / "moved.jsonl")
    with pytest.raises(InputError, match="is not there"):
        merge(parts, tmp_path / "merged")
    assert merge(parts, tmp_path / "merged", data=moved).complete
    moved.write_text(moved.read_text().replace("fever", "cough"))
    with pytest.raises(InputError, match="sha256 differs"):
        merge(parts, tmp_path / "again", data=moved)
