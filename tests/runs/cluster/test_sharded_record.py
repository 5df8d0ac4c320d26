"""Questions asked of a record in shards are answered as those asked of the whole record."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from archqa.errors import CallerError, InputError
from archqa.fhir import Store, split_by_patient
from archqa.runs.predict import predict
from tests.fakes.cases import write_synthetic_cases
from tests.fhir.invented import encounter, observation, patient

PATIENTS = 9


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    resources: list[dict[str, Any]] = [
        patient(f"p{number}") for number in range(PATIENTS)
    ]
    for number in range(PATIENTS):
        resources.append(
            encounter(
                f"e{number}",
                f"p{number}",
                "2150-01-01T00:00:00Z",
                "2150-01-05T00:00:00Z",
            )
        )
        resources += [
            observation(f"o{number}-{each}", f"p{number}", when=f"2150-01-0{each}")
            for each in range(1, 5)
        ]
    path = tmp_path / "all.ndjson"
    path.write_text("".join(f"{json.dumps(each)}\n" for each in resources))
    with Store.open(tmp_path / "record.db", create=True) as store:
        store.load([path])
        split_by_patient(store, 3, tmp_path / "shards")
    return tmp_path / "record.db"


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "questions.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["question_id", "question", "patient_fhir_id"])
        rows.writerows(
            [f"q{number}", "How many encounters were there?", f"p{number}"]
            for number in range(PATIENTS)
        )
    return path


def test_a_run_over_shards_is_the_run_over_the_whole_record(
    whole: Path, questions: Path, tmp_path: Path
) -> None:
    runs = [
        predict(
            questions,
            out=tmp_path / f"run-{place.name}",
            pipeline="embedded",
            record=str(place),
        )
        for place in (whole, tmp_path / "shards")
    ]
    one, two = ([record.result for record in run.records] for run in runs)
    assert one == two
    assert [result.answer for result in one] == ["1"] * PATIENTS


@pytest.mark.cluster
@pytest.mark.long
def test_on_two_nodes_as_well(
    whole: Path, questions: Path, tmp_path: Path, ray_nodes: Any
) -> None:
    shards = str(tmp_path / "shards")
    here = predict(
        questions, out=tmp_path / "here", pipeline="embedded", record=str(whole)
    )
    there = predict(
        questions, out=tmp_path / "there", pipeline="embedded", record=shards, runner="ray",
        ray_address=ray_nodes.address,
    )  # fmt: skip
    assert [each.result for each in there.records] == [
        each.result for each in here.records
    ]


def test_shards_that_are_not_here_are_told_before_anything_is_written(
    whole: Path, questions: Path, tmp_path: Path
) -> None:
    for number in (1, 3):
        (tmp_path / "shards" / f"shard-{number}-of-3.db").unlink()
    with pytest.raises(
        InputError,
        match=r"(?s)shard-1-of-3.db: is not here.*shard-3-of-3.db: is not here",
    ):
        predict(
            questions,
            out=tmp_path / "run",
            pipeline="embedded",
            record=str(tmp_path / "shards"),
        )
    assert not (tmp_path / "run").exists()


def test_notes_need_no_record_whatever_is_set(whole: Path, tmp_path: Path) -> None:
    cases = write_synthetic_cases(tmp_path / "cases.jsonl", count=1, sentences=2)
    assert predict(
        cases,
        out=tmp_path / "run",
        pipeline="embedded",
        record=str(tmp_path / "shards"),
    ).complete
    with pytest.raises((CallerError, InputError)):
        predict(
            cases,
            out=tmp_path / "no",
            pipeline="embedded",
            record=str(tmp_path / "nothing"),
        )
