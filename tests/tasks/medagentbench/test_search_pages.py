"""A search of the typed tools reads three pages of 200.

More than one, since a task may need them all.
"""

import json
from datetime import datetime, timedelta
from pathlib import Path

from archqa.fhir import Store
from archqa.runs.predict import predict
from tests.tasks.medagentbench.invented import CLOCK, observation, patient, task


def test_the_mean_of_a_day_counts_the_measurements_of_three_pages(tmp_path: Path) -> None:
    now = datetime.fromisoformat(CLOCK)
    mrn = "S9000001"
    measurements = [
        observation(mrn, "GLU", float(age), (now - timedelta(minutes=age)).isoformat(), age)
        for age in range(1, 701)
    ]
    data = tmp_path / "data.ndjson"
    resources = [patient(mrn, "Ada", "Muster", "1950-11-14"), *measurements]
    data.write_text("".join(json.dumps(resource) + "\n" for resource in resources))
    Store.open(tmp_path / "record.db", create=True).load([data])
    tasks = tmp_path / "tasks.json"
    tasks.write_text(json.dumps([task(6, mrn)]))
    run = predict(
        tasks, out=tmp_path / "run", pipeline="scripted", record=str(tmp_path / "record.db")
    )
    (record,) = run.records
    assert record.result.result == f"[{sum(range(1, 601)) / 600}]"
