"""The meaning of a query by the benchmark's conventions, computed independently for the tests.

Written from the tables of reference/fhir-agentbench-semantics.md, not from the executor.
"""

from typing import Any

from tests.query.reference_limits import (
    POSITIONS,
    Json,
    at_position,
    has_name,
    is_in_spans,
    is_near,
    passes_limits,
    sqlite,
    with_extreme_value,
)
from tests.query.reference_rows import ReferenceRow, ReferenceRows, Resource

_STAYS = {"hospital_visit", "icu_stay", "care_unit"}
_PERIOD_LENGTH = {"day": 10, "month": 7, "year": 4}
_KEY_OF_FIELD = {"dose": "value", "admission_source": "source"}
_NO_LIMITS: Json = {
    "specimens": [],
    "routes": [],
    "admission_sources": [],
    "organisms": [],
    "grew": None,
    "value": None,
    "extreme": None,
    "companion": None,
}


class ReferenceExecutor:
    """Answers queries, given as JSON values, about one patient."""

    def __init__(self, resources: list[Resource], patient: str) -> None:
        self._rows = ReferenceRows(resources, patient)

    def answer(self, query: Json) -> tuple[list[Any], dict[str, set[str]]]:
        """The values (texts and times once) and the ids of the evidence by type."""
        rows = self._select(query, query["names"], query["when"])
        against = query["against"]
        if against is None:
            return _answer_values(query, rows), _evidence(rows)
        names = against["names"] or query["names"]
        opposite_rows = self._select(query, names, against["when"])
        own_value = _single_value(query, rows)
        opposite_value = _single_value(query, opposite_rows)
        value = None
        if own_value is not None and opposite_value is not None:
            value = _compare(against["relation"], own_value, opposite_value)
        return [value], _evidence([*rows, *opposite_rows])

    def _select(self, query: Json, names: list[str], when: Json) -> list[ReferenceRow]:
        """The rows of one side of the query."""
        rows = self._rows.of_kind(query["what"])
        if query["what"] == "patient":
            return rows
        if names:
            rows = [row for row in rows if has_name(row["name"], names)]
        if query["what"] == "medication":
            rows = _with_start(rows, when["position"])
        rows = [row for row in rows if self._is_in_visit(row, when["visit"])]
        if query["returns"] == "end_time" and query["what"] in _STAYS:
            rows = [{**row, "start": row["time"], "time": row["end"]} for row in rows]
        rows = [
            row for row in rows if is_in_spans(row["time"], when["spans"], query["now"])
        ]
        rows = [row for row in rows if passes_limits(row, query)]
        if query["companion"]:
            rows = self._near_companion(rows, query["companion"], query["now"])
        rows = with_extreme_value(query["extreme"], rows)
        return at_position(when["position"], rows)

    def _near_companion(
        self, rows: list[ReferenceRow], companion: Json, now: str
    ) -> list[ReferenceRow]:
        query = {
            **_NO_LIMITS,
            "what": companion["what"],
            "routes": companion["routes"],
            "returns": "name",
            "now": now,
        }
        companion_rows = self._select(query, companion["names"], companion["when"])
        near_rows = []
        for row in rows:
            if any(
                is_near(row, companion_row, companion)
                for companion_row in companion_rows
            ):
                near_rows.append(row)
        return near_rows

    def _is_in_visit(self, row: ReferenceRow, visit: Json | None) -> bool:
        if visit is None:
            return True
        encounter = self._find_visit(visit)
        if encounter is None:
            return False
        if visit["kind"] == "hospital":
            return bool(row["hospital_visit"] == encounter["id"])
        if row["icu_stay"]:
            return bool(row["icu_stay"] == encounter["id"])
        if f"Encounter/{row['hospital_visit']}" != encounter["partOf"]["reference"]:
            return False
        start = encounter["period"]["start"][:19]
        end = encounter["period"].get("end", "9999")[:19]
        return row["time"] is not None and start <= row["time"] <= end

    def _find_visit(self, visit: Json) -> Resource | None:
        kind = {"hospital": "hosp", "icu": "icu"}[visit["kind"]]
        encounters = sorted(self._rows.encounters(kind), key=_start_and_id)
        index = -1
        if visit["which"] == "current":
            encounters = [stay for stay in encounters if "end" not in stay["period"]]
        else:
            index = POSITIONS[visit["which"]]
        if not -len(encounters) <= index < len(encounters):
            return None
        return encounters[index]


def _with_start(rows: list[ReferenceRow], position: str | None) -> list[ReferenceRow]:
    """Orders without a start have the time of writing, or are left out of an order in time."""
    rows_with_start = []
    for row in rows:
        if row["time"] is not None:
            rows_with_start.append(row)
        elif position is None:
            rows_with_start.append({**row, "time": row["authored"]})
    return rows_with_start


def _start_and_id(encounter: Resource) -> tuple[str, str]:
    return encounter["period"]["start"][:19], encounter["id"]


def _compare(relation: str, own_value: float, opposite_value: float) -> float | bool:
    if relation == "difference":
        return own_value - opposite_value
    if relation == "greater":
        return own_value > opposite_value
    if relation == "less":
        return own_value < opposite_value
    return own_value == opposite_value


def _evidence(rows: list[ReferenceRow]) -> dict[str, set[str]]:
    """Ids by type. A mixture is evidence if all its drugs are among the rows of the order."""
    refs: set[str] = set()
    drugs_by_mixture: dict[tuple[str, str, int], int] = {}
    for row in rows:
        refs |= row["ids"]
        if "mixture" in row:
            mixture = row["mixture"]
            drugs_by_mixture[mixture] = drugs_by_mixture.get(mixture, 0) + 1
    for (medication_ref, _, ingredient_count), drug_count in drugs_by_mixture.items():
        if drug_count == ingredient_count:
            refs.add(medication_ref)
    ids_by_type: dict[str, set[str]] = {}
    for ref in refs:
        resource_type, resource_id = ref.split("/")
        ids_by_type.setdefault(resource_type, set()).add(resource_id)
    return ids_by_type


def _answer_values(query: Json, rows: list[ReferenceRow]) -> list[Any]:
    """The values of a query that compares nothing."""
    if query["summary"] == "exists":
        return [bool(rows)]
    if query["per"]:
        return _values_by_period(query, rows)
    if query["summary"] in {"count", "minimum", "maximum", "average", "sum"}:
        return [_single_value(query, rows)]
    values = _all_values(query, rows)
    if query["summary"] == "count_distinct":
        return [len(set(values))]
    if query["returns"] in {"value", "dose", "elapsed", "length_of_stay"}:
        return values
    return list(dict.fromkeys(values))


def _values_by_period(query: Json, rows: list[ReferenceRow]) -> list[Any]:
    length = _PERIOD_LENGTH[query["per"]]
    rows_by_period: dict[str, list[ReferenceRow]] = {}
    for row in rows:
        if row["time"]:
            rows_by_period.setdefault(row["time"][:length], []).append(row)
    values = []
    for _, period_rows in sorted(rows_by_period.items()):
        value = _single_value(query, period_rows)
        if value is not None:
            values.append(value)
    return values


def _single_value(query: Json, rows: list[ReferenceRow]) -> Any:
    """The aggregate; without an aggregation, the value of the earliest row."""
    if query["summary"] == "count":
        return len(rows)
    if query["summary"] == "each":
        values = _all_values(query, rows[:1])
        return next(iter(values), None)
    values = [value for value in _all_values(query, rows) if value is not None]
    if query["returns"] not in {"time", "end_time"}:
        values = [value for value in values if not isinstance(value, str)]
    if not values:
        return None
    if query["summary"] == "minimum":
        return min(values)
    if query["summary"] == "maximum":
        return max(values)
    if query["summary"] == "sum":
        return sum(values)
    return sum(values) / len(values)


def _all_values(query: Json, rows: list[ReferenceRow]) -> list[Any]:
    values: list[Any] = []
    for row in rows:
        values += _row_values(query, row)
    return values


def _row_values(query: Json, row: ReferenceRow) -> list[Any]:
    """The values of the returned field of one row."""
    returns = query["returns"]
    if returns == "value":
        return [row.get("result", row["value"])]
    value = _field_value(query, row)
    if isinstance(value, list):
        return value
    if value is None or value == "":
        return []
    return [value]


def _field_value(query: Json, row: ReferenceRow) -> Any:
    """The returned field: a value, a list of values, or None or "" for none."""
    returns = query["returns"]
    if returns == "time":
        return _time_text(row["time"])
    if returns == "end_time":
        return _time_text(row["end"])
    if returns == "length_of_stay":
        return _duration(row["time"], row["end"], query["unit"])
    if returns == "elapsed":
        midnight = query["now"][:10] + "T00:00:00"
        return _duration(row["time"], midnight, query["unit"])
    if returns == "care_unit":
        return row.get("care_unit", row["name"])
    if returns == "visit":
        return _visit_ref(row)
    key = _KEY_OF_FIELD.get(returns, returns)
    return row.get(key)


def _visit_ref(row: ReferenceRow) -> str:
    if not row["hospital_visit"]:
        return ""
    return f"Encounter/{row['hospital_visit']}"


def _time_text(time: str | None) -> str:
    if time is None:
        return ""
    return time.replace("T", " ")


def _duration(start: str | None, end: str | None, unit: str | None) -> float | None:
    """The time between in days, or in hours."""
    if start is None or end is None:
        return None
    days = float(sqlite("SELECT julianday(?) - julianday(?)", end, start))
    if unit == "hour":
        return days * 24
    return days
