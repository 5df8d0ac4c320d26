"""The meaning of a query by the benchmark's conventions, computed independently for the tests.

Plain loops over the resources, times as text.

Written from the tables of reference/fhir-agentbench-semantics.md, not from the executor; date arithmetic is SQLite's.
"""

import sqlite3
from typing import Any

Resource = dict[str, Any]
SYSTEMS = {
    "lab": "mimic-d-labitems",
    "vital": "mimic-chartevents-d-items",
    "output": "mimic-d-items",
    "test": "mimic-microbiology-test",
}


PLACES = {
    "first": 0,
    "second": 1,
    "third": 2,
    "third_to_last": -3,
    "second_to_last": -2,
    "last": -1,
}


class ReferenceExecutor:
    """Computes by hand over one patient's resources; the query comes as JSON values."""

    def __init__(self, resources: list[Resource], patient: str) -> None:
        self.by = {f"{each['resourceType']}/{each['id']}": each for each in resources}
        mine = f"Patient/{patient}"
        self.mine = [
            r
            for r in resources
            if r.get("subject", {}).get("reference") == mine or f"Patient/{r['id']}" == mine
        ]

    def of(self, kind: str) -> list[Resource]:
        return [each for each in self.mine if each["resourceType"] == kind]

    def visits(self, kind: str) -> list[Resource]:
        return [
            e
            for e in self.of("Encounter")
            if e["identifier"][0]["system"].endswith(f"encounter-{kind}")
        ]

    def rows(self, what: str) -> list[dict[str, Any]]:
        """Rows as dicts: ids, name, t, and what the sort has besides."""
        return list(getattr(self, what)())

    def measured(self, what: str):
        for each in self.of("Observation"):
            if not each["code"]["coding"][0]["system"].endswith("/" + SYSTEMS[what]):
                continue
            if what == "output" and "valueQuantity" not in each:
                continue
            row = self.row(each, each["effectiveDateTime"])
            if what == "lab" and not row["hosp"]:
                continue
            quantity = each.get("valueQuantity", {})
            row["value"] = None if "comparator" in quantity else quantity.get("value")
            yield row

    def lab(self):
        return self.measured("lab")

    def vital(self):
        return self.measured("vital")

    def output(self):
        return self.measured("output")

    def row(self, resource: Resource, t: str | None) -> dict[str, Any]:
        encounter = self.by.get(resource.get("encounter", {}).get("reference", ""))
        own = encounter["id"] if encounter else ""
        icu = own if encounter and "partOf" in encounter else ""
        hosp = encounter["partOf"]["reference"].split("/")[1] if encounter and icu else own
        code = resource.get("code", {}).get("coding", [{}])[0]
        return {
            "ids": {f"{resource['resourceType']}/{resource['id']}"},
            "name": code.get("display", ""),
            "t": t[:19] if t else None,
            "end": None,
            "hosp": hosp,
            "icu": icu,
            "value": None,
        }

    def tests(self):
        """(row of the test, [(organism, [susceptibilities])])"""
        for each in self.of("Observation"):
            if (
                each["code"]["coding"][0]["system"].endswith("microbiology-test")
                and "encounter" in each
            ):
                row = self.row(each, each["effectiveDateTime"])
                row["specimen"] = self.by[each["specimen"]["reference"]]["type"]["coding"][0][
                    "display"
                ]
                organisms = [self.by[m["reference"]] for m in each.get("hasMember", [])]
                below = [
                    (o, [self.by[m["reference"]] for m in o.get("hasMember", [])])
                    for o in organisms
                ]
                yield row, below

    def microbiology_test(self):
        for row, organisms in self.tests():
            for organism, below in organisms:
                row["ids"] |= {f"Observation/{x['id']}" for x in (organism, *below)}
            row["organism"] = [o["code"]["coding"][0]["display"] for o, _ in organisms]
            yield row

    def organism(self):
        for row, organisms in self.tests():
            for organism, below in organisms:
                name = organism["code"]["coding"][0]["display"]
                ids = row["ids"] | {f"Observation/{x['id']}" for x in (organism, *below)}
                yield {**row, "ids": ids, "name": name, "organism": [name]}

    def susceptibility(self):
        for row, organisms in self.tests():
            for organism, below in organisms:
                for each in below:
                    ids = row["ids"] | {
                        f"Observation/{organism['id']}",
                        f"Observation/{each['id']}",
                    }
                    name = each["code"]["coding"][0]["display"]
                    grown = organism["code"]["coding"][0]["display"]
                    result = each["valueCodeableConcept"]["coding"][0]["code"]
                    yield {**row, "ids": ids, "name": name, "organism": [grown], "told": result}

    def medication(self):
        for order in self.of("MedicationRequest"):
            named = self.by[order["medicationReference"]["reference"]]
            parts = [self.by[i["itemReference"]["reference"]] for i in named.get("ingredient", [])]
            for drug in parts or [named]:
                row = self.row(
                    order, order["dispenseRequest"].get("validityPeriod", {}).get("start")
                )
                dosage = order["dosageInstruction"][0]
                row |= {
                    "ids": row["ids"] | {f"Medication/{drug['id']}"},
                    "name": next(
                        i["value"]
                        for i in drug["identifier"]
                        if i["system"].endswith("medication-name")
                    ),
                    "route": dosage["route"]["coding"][0]["code"],
                    "value": dosage.get("doseAndRate", [{}])[0]
                    .get("doseQuantity", {})
                    .get("value"),
                    "authored": order["authoredOn"][:19],
                    "mix": (f"Medication/{named['id']}", order["id"], len(parts))
                    if parts
                    else None,
                }
                yield row

    def procedure(self):
        for each in self.of("Procedure"):
            if "icd" in each["code"]["coding"][0]["system"]:
                yield self.row(each, each["performedDateTime"])

    def diagnosis(self):
        for each in self.of("Condition"):
            yield self.row(each, self.by[each["encounter"]["reference"]]["period"]["start"])

    def stays(self, kind: str):
        for each in self.visits(kind):
            row = self.row(
                {**each, "encounter": {"reference": f"Encounter/{each['id']}"}},
                each["period"]["start"],
            )
            source = (
                each.get("hospitalization", {})
                .get("admitSource", {})
                .get("coding", [{}])[0]
                .get("code", "")
            )
            places = [
                self.by[place["location"]["reference"]]["name"]
                for place in each.get("location", [])
            ]
            end = each["period"].get("end", "")[:19] or None
            yield {
                **row,
                "end": end,
                "source": source,
                "name": "",
                "care_unit": list(dict.fromkeys(places)),
            }

    def hospital_visit(self):
        return self.stays("hosp")

    def icu_stay(self):
        return self.stays("icu")

    def care_unit(self):
        for each in self.visits("hosp"):
            for place in each.get("location", []):
                where = self.by[place["location"]["reference"]]
                start, end = place["period"]["start"], place["period"].get("end", "")
                row = self.row(
                    {**each, "encounter": {"reference": f"Encounter/{each['id']}"}}, start
                )
                yield {
                    **row,
                    "ids": {f"Location/{where['id']}"},
                    "name": where["name"],
                    "end": end[:19] or None,
                }

    def patient(self):
        for each in self.of("Patient"):
            yield {
                "ids": {f"Patient/{each['id']}"},
                "name": "",
                "t": None,
                "value": None,
                "sex": each["gender"][0].upper(),
            }

    # What of the rows is asked for.

    def side(self, query: Resource, names: list[str], when: Resource) -> list[dict[str, Any]]:
        """The rows that pass, and of those the n-th in time."""
        what = query["what"]
        if what == "patient":
            return self.rows(what)
        rows = [row for row in self.rows(what) if not names or _same(row["name"], names)]
        if what == "medication":
            rows = [
                {**row, "t": row["t"] or row["authored"]}
                for row in rows
                if row["t"] or not when["position"]
            ]
        rows = [row for row in rows if self.within(row, when["visit"])]
        if query["returns"] == "end_time" and what in {"hospital_visit", "icu_stay", "care_unit"}:
            rows = [{**row, "t": row["end"], "start": row["t"]} for row in rows]
        rows = [
            row
            for row in rows
            if all(_in_span(row["t"], span, query["now"]) for span in when["spans"])
        ]
        rows = [row for row in rows if _passes(row, query)]
        if query["companion"]:
            near = self.companions(query["companion"], query["now"])
            rows = [
                row for row in rows if any(_near(row, other, query["companion"]) for other in near)
            ]
        return _at(when["position"], _extreme(query["extreme"], rows))

    def companions(self, wanted: Resource, now: str) -> list[dict[str, Any]]:
        """The rows of which one must be near."""
        empty: Resource = {
            "specimens": [],
            "routes": [],
            "admission_sources": [],
            "organisms": [],
            "grew": None,
        }
        limits = {"value": None, "extreme": None, "companion": None, "returns": "name", "now": now}
        query = {**empty, **limits, "what": wanted["what"], "routes": wanted["routes"]}
        return self.side(query, wanted["names"], wanted["when"])

    def within(self, row: dict[str, Any], visit: Resource | None) -> bool:
        if visit is None:
            return True
        stays = self.visits("icu" if visit["kind"] == "icu" else "hosp")
        stays.sort(key=lambda each: (each["period"]["start"][:19], each["id"]))
        if visit["which"] == "current":
            stays, at = [each for each in stays if "end" not in each["period"]], -1
        else:
            at = PLACES[visit["which"]]
        if not -len(stays) <= at < len(stays) or "hosp" not in row:
            return False
        chosen = stays[at]
        if visit["kind"] == "hospital":
            return row["hosp"] == chosen["id"]
        if row["icu"]:
            return row["icu"] == chosen["id"]
        start, end = chosen["period"]["start"][:19], chosen["period"].get("end", "9999")[:19]
        same = row["hosp"] == chosen["partOf"]["reference"].split("/")[1]
        return same and row["t"] is not None and start <= row["t"] <= end

    def answer(self, query: Resource) -> tuple[list[Any], dict[str, set[str]]]:
        """The values (words and times once) and the ids by type."""
        rows = self.side(query, query["names"], query["when"])
        against = query["against"]
        if against is None:
            return _summed(query, rows), self.ids(rows)
        others = self.side(query, against["names"] or query["names"], against["when"])
        one, two = (_figure(query, each) for each in (rows, others))
        ids = self.ids([*rows, *others])
        if one is None or two is None:
            return [None], ids
        relations = {
            "difference": one - two,
            "greater": one > two,
            "less": one < two,
            "equal": one == two,
        }
        return [relations[against["relation"]]], ids

    def ids(self, rows: list[dict[str, Any]]) -> dict[str, set[str]]:
        refs = {ref for row in rows for ref in row["ids"]}
        for row in rows:
            if row.get("mix"):
                mix, order, parts = row["mix"]
                if len([r for r in rows if r.get("mix") and r["mix"][1] == order]) == parts:
                    refs.add(mix)
        found: dict[str, set[str]] = {}
        for ref in refs:
            found.setdefault(ref.split("/")[0], set()).add(ref.split("/")[1])
        return found


def _summed(query: Resource, rows: list[dict[str, Any]]) -> list[Any]:
    summary = query["summary"]
    if summary == "exists":
        return [bool(rows)]
    if query["per"]:
        length = {"day": 10, "month": 7, "year": 4}[query["per"]]
        periods = sorted({row["t"][:length] for row in rows if row["t"]})
        found = [
            _figure(query, [row for row in rows if row["t"] and row["t"][:length] == each])
            for each in periods
        ]
        return [value for value in found if value is not None]
    if summary in {"count", "minimum", "maximum", "average", "sum"}:
        return [_figure(query, rows)]
    values = [value for row in rows for value in _told(query, row)]
    if summary == "count_distinct":
        return [len(set(values))]
    repeated = query["returns"] in {"value", "dose", "elapsed", "length_of_stay"}
    return values if repeated else list(dict.fromkeys(values))


def _told(query: Resource, row: dict[str, Any]) -> list[Any]:
    """What of a row is asked for."""
    returns = query["returns"]
    if returns in {"time", "end_time"}:
        end = row["end"] if returns == "end_time" else row["t"]
        return [end.replace("T", " ")] if end else []
    if returns in {"elapsed", "length_of_stay"}:
        start, end = (
            row["t"],
            row["end"] if returns == "length_of_stay" else query["now"][:10] + "T00:00:00",
        )
        factor = {"hour": 24, "day": 1, None: 1}[query["unit"]]
        return [_days(end, start) * factor] if start and end else []
    if returns == "visit":
        return [f"Encounter/{row['hosp']}"] if row["hosp"] else []
    found = {
        "value": row.get("told", row["value"]),
        "dose": row["value"],
        "organism": row.get("organism"),
        "admission_source": row.get("source"),
        "care_unit": row.get("care_unit", row["name"]),
    }.get(returns, row.get(returns))
    if returns == "value":
        return [found]
    return found if isinstance(found, list) else [found] if found else []


def _figure(query: Resource, rows: list[dict[str, Any]]) -> Any:
    if query["summary"] == "count":
        return len(rows)
    values = [value for row in rows for value in _told(query, row) if value is not None]
    if query["summary"] == "each":
        first = [value for row in rows[:1] for value in _told(query, row)]
        return first[0] if first else None
    times = query["returns"] in {"time", "end_time"}
    values = [value for value in values if times or not isinstance(value, str)]
    if not values:
        return None
    total = {
        "minimum": min,
        "maximum": max,
        "sum": sum,
        "average": lambda them: sum(them) / len(them),
    }
    return total[query["summary"]](values)


def _days(end: str, start: str) -> float:
    return float(_sqlite("SELECT julianday(?) - julianday(?)", end, start))


def _same(name: str, wanted: list[str]) -> bool:
    return name.strip().lower() in [each.strip().lower() for each in wanted]


def _passes(row: dict[str, Any], query: Resource) -> bool:
    for field, wanted in (
        ("specimen", "specimens"),
        ("route", "routes"),
        ("source", "admission_sources"),
    ):
        if query[wanted] and not _same(row.get(field, ""), query[wanted]):
            return False
    if query["organisms"] and not any(
        _same(name, query["organisms"]) for name in row.get("organism", [])
    ):
        return False
    if query["grew"] is not None and bool(row["organism"]) != query["grew"]:
        return False
    if query["value"]:
        if row["value"] is None:
            return False
        number = query["value"]["number"]
        return {
            "greater": row["value"] > number,
            "less": row["value"] < number,
            "at_least": row["value"] >= number,
            "at_most": row["value"] <= number,
            "equal": row["value"] == number,
        }[query["value"]["comparison"]]
    return True


def _extreme(extreme: str | None, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if not extreme:
        return rows
    values = sorted(row["value"] for row in rows if row["value"] is not None)
    return [
        row for row in rows if values and row["value"] == values[0 if extreme == "minimum" else -1]
    ]


def _at(place: str | None, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if not place:
        return rows
    times = sorted({row["t"] for row in rows if row["t"]})
    at = PLACES[place]
    return [row for row in rows if -len(times) <= at < len(times) and row["t"] == times[at]]


def _near(row: dict[str, Any], other: dict[str, Any], wanted: Resource) -> bool:
    if row["ids"] == other["ids"]:
        return False
    if wanted["within"] == "same_visit" and not (row["hosp"] and row["hosp"] == other["hosp"]):
        return False
    length = {"same_time": 19, "same_day": 10, "same_month": 7}.get(wanted["within"])
    own, theirs = row.get("start", row["t"]), other["t"]
    timed = own is not None and theirs is not None
    if length and not (timed and own[:length] == theirs[:length]):
        return False
    return {
        "any": True,
        "after": timed and own > theirs,
        "before": timed and own < theirs,
    }[wanted["order"]]


def _in_span(t: str | None, span: Resource, now: str) -> bool:
    if t is None:
        return False
    today = now[:10]
    text = t.replace("T", " ")
    if span["ago"]:
        moment = _sqlite(
            "SELECT datetime(?, ?)",
            f"{today} 00:00:00",
            f"-{span['ago']['count']} {span['ago']['unit']}",
        )
        return text >= moment and t[:10] <= today
    wanted = _prefix(span, today)
    own = text[: len(wanted)]
    if span["relation"] == "in":
        return own == wanted
    if span["relation"] in {"since", "after"}:
        return (own > wanted or (span["relation"] == "since" and own == wanted)) and t[:10] <= today
    return own < wanted or (span["relation"] == "until" and own == wanted)


def _prefix(span: Resource, today: str) -> str:
    """`2131`, `2131-03`, `2131-03-05` or a time on that day."""
    if span["days_back"] is not None:
        found = _sqlite("SELECT date(?, ?)", today, f"-{span['days_back']} day")
    elif span["months_back"] is not None:
        found = _sqlite(
            "SELECT date(?, 'start of month', ?)", today, f"-{span['months_back']} month"
        )[:7]
    else:
        found = str(span["year"] or int(today[:4]) - span["years_back"])
    if span["month"]:
        found += f"-{span['month']:02}"
    if span["day"]:
        found += f"-{span['day']:02}"
    return f"{found} {span['clock']}" if span["clock"] else found


def _sqlite(select: str, *args: str) -> str:
    with sqlite3.connect(":memory:") as connection:
        return str(connection.execute(select, args).fetchone()[0])
