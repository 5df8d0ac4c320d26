"""The rows of one patient as the reference executor sees them: dicts, with times as text.

Written from the tables of reference/fhir-agentbench-semantics.md, not from the executor.
"""

from collections.abc import Iterator
from typing import Any

Resource = dict[str, Any]
ReferenceRow = dict[str, Any]
"""ids (`Type/id`), name, time, end, hospital_visit, icu_stay, value, and what the kind has."""

_SYSTEMS = {
    "lab": "mimic-d-labitems",
    "vital": "mimic-chartevents-d-items",
    "output": "mimic-d-items",
}


class ReferenceRows:
    """Plain loops over the resources of one patient."""

    def __init__(self, resources: list[Resource], patient: str) -> None:
        self._by_ref: dict[str, Resource] = {}
        self._own: list[Resource] = []
        patient_ref = f"Patient/{patient}"
        for resource in resources:
            ref = _ref(resource)
            self._by_ref[ref] = resource
            subject = resource.get("subject", {}).get("reference")
            if patient_ref in {ref, subject}:
                self._own.append(resource)

    def of_kind(self, what: str) -> list[ReferenceRow]:
        """All rows of one kind."""
        rows: Iterator[ReferenceRow] = getattr(self, what)()
        return list(rows)

    def of_type(self, resource_type: str) -> list[Resource]:
        """The patient's resources of one type."""
        return [
            resource
            for resource in self._own
            if resource["resourceType"] == resource_type
        ]

    def encounters(self, kind: str) -> list[Resource]:
        """Hospital visits (`hosp`) or ICU stays (`icu`)."""
        encounters = []
        for encounter in self.of_type("Encounter"):
            if encounter["identifier"][0]["system"].endswith(f"encounter-{kind}"):
                encounters.append(encounter)
        return encounters

    def lab(self) -> Iterator[ReferenceRow]:
        for row in self._measurements("lab"):
            if row["hospital_visit"]:
                yield row

    def vital(self) -> Iterator[ReferenceRow]:
        return self._measurements("vital")

    def output(self) -> Iterator[ReferenceRow]:
        for row in self._measurements("output"):
            if row["is_quantity"]:
                yield row

    def _measurements(self, what: str) -> Iterator[ReferenceRow]:
        for observation in self.of_type("Observation"):
            if not _system(observation).endswith("/" + _SYSTEMS[what]):
                continue
            row = self._row(observation, observation["effectiveDateTime"])
            row["is_quantity"] = "valueQuantity" in observation
            quantity = observation.get("valueQuantity", {})
            if "comparator" not in quantity:
                row["value"] = quantity.get("value")
            yield row

    def _row(self, resource: Resource, time: str | None) -> ReferenceRow:
        encounter = self._by_ref.get(resource.get("encounter", {}).get("reference", ""))
        hospital_visit = ""
        icu_stay = ""
        if encounter is not None:
            hospital_visit = encounter["id"]
            if "partOf" in encounter:
                icu_stay = encounter["id"]
                hospital_visit = _referenced_id(encounter["partOf"])
        if time is not None:
            time = time[:19]
        return {
            "ids": {_ref(resource)},
            "name": _display(resource),
            "time": time,
            "end": None,
            "hospital_visit": hospital_visit,
            "icu_stay": icu_stay,
            "value": None,
        }

    def microbiology_test(self) -> Iterator[ReferenceRow]:
        for row, test in self._tests():
            row["organism"] = []
            for organism in self._members(test):
                row["organism"].append(_display(organism))
                row["ids"].add(_ref(organism))
                row["ids"].update(map(_ref, self._members(organism)))
            yield row

    def organism(self) -> Iterator[ReferenceRow]:
        for row, test in self._tests():
            for organism in self._members(test):
                name = _display(organism)
                ids = {*row["ids"], _ref(organism), *map(_ref, self._members(organism))}
                yield {**row, "ids": ids, "name": name, "organism": [name]}

    def susceptibility(self) -> Iterator[ReferenceRow]:
        for row, test in self._tests():
            for organism in self._members(test):
                for susceptibility in self._members(organism):
                    yield {
                        **row,
                        "ids": {*row["ids"], _ref(organism), _ref(susceptibility)},
                        "name": _display(susceptibility),
                        "organism": [_display(organism)],
                        "result": susceptibility["valueCodeableConcept"]["coding"][0][
                            "code"
                        ],
                    }

    def _tests(self) -> Iterator[tuple[ReferenceRow, Resource]]:
        """Microbiology tests with an encounter: the row without organisms, and the resource."""
        for test in self.of_type("Observation"):
            is_test = _system(test).endswith("microbiology-test")
            if is_test and "encounter" in test:
                row = self._row(test, test["effectiveDateTime"])
                specimen = self._by_ref[test["specimen"]["reference"]]
                row["specimen"] = specimen["type"]["coding"][0]["display"]
                yield row, test

    def _members(self, observation: Resource) -> list[Resource]:
        return [
            self._by_ref[member["reference"]]
            for member in observation.get("hasMember", [])
        ]

    def medication(self) -> Iterator[ReferenceRow]:
        for order in self.of_type("MedicationRequest"):
            medication = self._by_ref[order["medicationReference"]["reference"]]
            ingredients = []
            for ingredient in medication.get("ingredient", []):
                ingredients.append(
                    self._by_ref[ingredient["itemReference"]["reference"]]
                )
            if not ingredients:
                yield self._order_row(order, medication)
            for drug in ingredients:
                row = self._order_row(order, drug)
                row["mixture"] = (_ref(medication), order["id"], len(ingredients))
                yield row

    def _order_row(self, order: Resource, drug: Resource) -> ReferenceRow:
        start = order["dispenseRequest"].get("validityPeriod", {}).get("start")
        row = self._row(order, start)
        dosage = order["dosageInstruction"][0]
        dose = dosage.get("doseAndRate", [{}])[0].get("doseQuantity", {})
        row["ids"].add(_ref(drug))
        row["name"] = _medication_name(drug)
        row["route"] = dosage["route"]["coding"][0]["code"]
        row["value"] = dose.get("value")
        row["authored"] = order["authoredOn"][:19]
        return row

    def procedure(self) -> Iterator[ReferenceRow]:
        for procedure in self.of_type("Procedure"):
            if "icd" in _system(procedure):
                yield self._row(procedure, procedure["performedDateTime"])

    def diagnosis(self) -> Iterator[ReferenceRow]:
        for condition in self.of_type("Condition"):
            encounter = self._by_ref[condition["encounter"]["reference"]]
            yield self._row(condition, encounter["period"]["start"])

    def hospital_visit(self) -> Iterator[ReferenceRow]:
        return self._encounter_rows("hosp")

    def icu_stay(self) -> Iterator[ReferenceRow]:
        return self._encounter_rows("icu")

    def _encounter_rows(self, kind: str) -> Iterator[ReferenceRow]:
        for encounter in self.encounters(kind):
            units = []
            for location, _ in self._locations(encounter):
                units.append(location["name"])
            row = self._period_row(encounter, encounter["period"])
            hospitalization = encounter.get("hospitalization", {})
            source = hospitalization.get("admitSource", {}).get("coding", [{}])[0]
            row["source"] = source.get("code", "")
            row["name"] = ""
            row["care_unit"] = list(dict.fromkeys(units))
            yield row

    def care_unit(self) -> Iterator[ReferenceRow]:
        for encounter in self.encounters("hosp"):
            for location, period in self._locations(encounter):
                row = self._period_row(encounter, period)
                row["ids"] = {_ref(location)}
                row["name"] = location["name"]
                yield row

    def _locations(self, encounter: Resource) -> Iterator[tuple[Resource, Resource]]:
        """The locations of an encounter and the periods spent there."""
        for stay in encounter.get("location", []):
            yield self._by_ref[stay["location"]["reference"]], stay["period"]

    def _period_row(self, encounter: Resource, period: Resource) -> ReferenceRow:
        own_reference = {"reference": _ref(encounter)}
        row = self._row({**encounter, "encounter": own_reference}, period["start"])
        if "end" in period:
            row["end"] = period["end"][:19]
        return row

    def patient(self) -> Iterator[ReferenceRow]:
        for patient in self.of_type("Patient"):
            sex = patient["gender"][0].upper()
            identifiers = [each["value"] for each in patient.get("identifier", [])]
            names = [
                " ".join([*each["given"], each["family"]]) for each in patient["name"]
            ]
            yield {
                "ids": {_ref(patient)},
                "name": "",
                "time": None,
                "value": None,
                "sex": sex,
                "identifier": identifiers[0] if identifiers else "",
                "patient_name": names[0] if names else "",
            }


def _ref(resource: Resource) -> str:
    return f"{resource['resourceType']}/{resource['id']}"


def _referenced_id(reference: Resource) -> str:
    return str(reference["reference"].split("/")[1])


def _coding(resource: Resource) -> Resource:
    coding: Resource = resource.get("code", {}).get("coding", [{}])[0]
    return coding


def _system(resource: Resource) -> str:
    return str(_coding(resource)["system"])


def _display(resource: Resource) -> str:
    return str(_coding(resource).get("display", ""))


def _medication_name(medication: Resource) -> str:
    for identifier in medication["identifier"]:
        if identifier["system"].endswith("medication-name"):
            return str(identifier["value"])
    raise ValueError(f"{medication['id']} has no name")
