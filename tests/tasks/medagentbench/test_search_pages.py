"""A search of the typed tools reads three pages of 200.

More than one, since a task may need them all.
"""

import json
from datetime import datetime, timedelta
from pathlib import Path

from archqa.fhir import Store
from tests.fakes.replies import tool_call_reply
from tests.tasks.medagentbench.invented import (
    CLOCK,
    SyntheticBenchmark,
    observation,
    patient,
    task,
)
from tests.tasks.medagentbench.typed_agent import (
    ScriptedAgent,
    finish,
    run_task,
    tool_results,
)


def test_a_search_counts_the_measurements_of_three_pages(tmp_path: Path) -> None:
    now = datetime.fromisoformat(CLOCK)
    mrn = "S9000001"
    resources = [patient(mrn, "Ada", "Muster", "1950-11-14")]
    resources += [
        observation(
            mrn, "GLU", float(age), (now - timedelta(minutes=age)).isoformat(), age
        )
        for age in range(1, 701)
    ]
    data = tmp_path / "data.ndjson"
    data.write_text("".join(json.dumps(resource) + "\n" for resource in resources))
    store = tmp_path / "record.db"
    Store.open(store, create=True).load([data])
    benchmark = SyntheticBenchmark(store, tmp_path / "tasks.json", [])
    look = {"patient": mrn, "code": "GLU", "within_hours": 24}
    agent = ScriptedAgent(tool_call_reply(("search_labs", look)), finish(-1))
    record = run_task(benchmark, tmp_path, task(6, mrn), agent)
    [result] = tool_results(agent.requests)
    assert result["found"] == 600
    turns = [
        turn["content"] for turn in record.result.history if turn["role"] == "agent"
    ]
    assert [turn.partition(" ")[0] for turn in turns[:3]] == ["GET", "GET", "GET"]
