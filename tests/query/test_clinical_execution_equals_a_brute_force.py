"""Results by concept and flag, and orders by state, agree with plain loops over random records."""

import random
from pathlib import Path
from typing import Any

import pytest

from archqa.query import Query, QueryResult, When, execute
from tests.fhir.invented import build_store, patient
from tests.query.clinic import (
    NOW,
    Resource,
    blood_pressure,
    interpretation,
    order,
    result,
)

_CODES = {
    "glucose": {"2339-0", "2345-7"},
    "hemoglobin a1c": {"4548-4"},
    "systolic blood pressure": {"8480-6"},
}
_FLAG_OF_INTERPRETATION = {"H": "high", "L": "low", "N": "normal"}
_RECORDS = 25
_UNFIT = {"entered-in-error", "registered", "cancelled"}

Reading = dict[str, Any]


def random_results(pick: random.Random) -> list[Resource]:
    """Readings on few days and with few values, so that some occur twice or share a time."""
    resources = []
    for number in range(30):
        time = f"2020-01-{pick.randint(1, 9):02}T{pick.choice([8, 9]):02}:00:00Z"
        value = pick.choice([90, 110, 130])
        if pick.random() < 0.2:
            resources.append(blood_pressure(f"o{number}", time, value, 70))
            continue
        code = pick.choice(["2339-0", "2345-7", "4548-4", "8480-6"])
        fields: Resource = {
            "status": pick.choice(["final", "final", "amended", *sorted(_UNFIT)]),
        }
        if pick.random() < 0.7:
            fields["interpretation"] = interpretation(pick.choice("HLN"))
        resources.append(
            result(f"o{number}", code, f"Test {code}", time, (value, "u"), **fields)
        )
    return resources


def readings_of(resources: list[Resource]) -> list[Reading]:
    """Every reading that counts, components included; equal ones are one with several ids."""
    readings: dict[tuple[Any, ...], Reading] = {}
    for resource in resources:
        if resource["status"] in _UNFIT:
            continue
        for part in resource.get("component", [resource]):
            code = part["code"]["coding"][0]["code"]
            value = part["valueQuantity"]["value"]
            unit = part["valueQuantity"]["unit"]
            time = resource["effectiveDateTime"]
            key = (code, time, value, unit, resource["status"])
            reading = readings.setdefault(
                key,
                {
                    "code": code,
                    "time": time,
                    "value": value,
                    "ids": set(),
                    "flags": set(),
                },
            )
            reading["ids"].add(resource["id"])
            for coding in part.get("interpretation", [{"coding": []}])[0]["coding"]:
                reading["flags"].add(_FLAG_OF_INTERPRETATION[coding["code"]])
    return sorted(readings.values(), key=lambda reading: str(reading["time"]))


def at_position(readings: list[Reading], position: str | None) -> list[Reading]:
    if position is None or not readings:
        return readings
    time = readings[{"first": 0, "last": -1}[position]]["time"]
    return [reading for reading in readings if reading["time"] == time]


def expected_values(readings: list[Reading], summary: str) -> list[Any]:
    values = [reading["value"] for reading in readings]
    if summary == "count":
        return [len(values)]
    if summary == "exists":
        return [bool(values)]
    if summary == "each":
        return values
    return [{"maximum": max, "minimum": min}[summary](values) if values else None]


def ids_of(answer: QueryResult) -> set[str]:
    return set(answer.evidence.get("Observation", ()))


@pytest.mark.parametrize("seed", range(_RECORDS))
def test_results_equal_those_of_plain_loops(tmp_path: Path, seed: int) -> None:
    pick = random.Random(seed)
    resources = random_results(pick)
    everything = readings_of(resources)
    with build_store(tmp_path / "record", [patient("p"), *resources]) as store:
        for _ in range(40):
            concept = pick.choice(list(_CODES))
            position = pick.choice([None, "first", "last"])
            summary = pick.choice(["each", "count", "exists", "maximum", "minimum"])
            flag = pick.choice([None, None, "high", "low"])
            wanted = [
                reading for reading in everything if reading["code"] in _CODES[concept]
            ]
            if flag is not None and any(
                len(reading["flags"]) > 1 for reading in wanted
            ):
                continue  # One reading that is marked high and low: either may be told.
            if flag is not None:
                wanted = [reading for reading in wanted if flag in reading["flags"]]
            chosen = at_position(wanted, position)
            query = Query(
                what="observation",
                concepts=(concept,),
                summary=summary,
                flag=flag,
                when=When(position=position),
                now=NOW,
            )
            answer = execute(query, store, "p")
            assert ids_of(answer) == {
                each for reading in chosen for each in reading["ids"]
            }
            expected = expected_values(chosen, summary)
            assert sorted(map(str, answer.answer.values)) == sorted(map(str, expected))


def random_order(pick: random.Random, number: int) -> Resource:
    period = {}
    if pick.random() < 0.8:
        period["start"] = pick.choice(
            ["2026-01-01", "2026-11-23T11:59:00", "2026-12-01"]
        )
    if pick.random() < 0.5:
        period["end"] = pick.choice(
            ["2026-11-22", "2026-11-23", "2026-11-23T12:00:00", "2027-01-01"]
        )
    status = pick.choice(
        [
            "active",
            "active",
            "stopped",
            "completed",
            "on-hold",
            "cancelled",
            "entered-in-error",
        ]
    )
    intent = pick.choice(["order", "order", "plan", "proposal"])
    request = {"validityPeriod": period}
    return order(
        f"r{number}", f"Drug {number}", status, intent=intent, dispenseRequest=request
    )


def state_of(held: Resource) -> str:
    """What the order is on the day of the question at noon, by the rules of its status and dates."""
    if (
        held["status"] in {"cancelled", "entered-in-error"}
        or held["intent"] == "proposal"
    ):
        return "no fact"
    period = held["dispenseRequest"]["validityPeriod"]
    if held["status"] in {"stopped", "completed"}:
        return "ended"
    if period.get("end") in {"2026-11-22", "2026-11-23T12:00:00"}:
        return "ended"
    begins_later = period.get("start") == "2026-12-01"
    return "current" if held["status"] == "active" and not begins_later else "neither"


@pytest.mark.parametrize("seed", range(_RECORDS))
def test_the_state_of_orders_equals_that_of_plain_rules(
    tmp_path: Path, seed: int
) -> None:
    pick = random.Random(seed)
    orders = [random_order(pick, number) for number in range(20)]
    with build_store(tmp_path / "orders", [patient("p"), *orders]) as store:
        for state in ("current", "ended", None):
            query = Query(what="medication", returns="name", state=state, now=NOW)
            found = set(
                execute(query, store, "p").evidence.get("MedicationRequest", ())
            )
            expected = {
                held["id"]
                for held in orders
                if state_of(held) != "no fact" and state in {None, state_of(held)}
            }
            assert found == expected
