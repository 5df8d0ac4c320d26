"""Conversations written by hand, turn by turn, as the benchmark keeps them."""

import copy
import json
from collections.abc import Callable
from typing import Any

from scoring.tasks.medagentbench_transcript import Message, Transcript

BASE = "http://localhost:8080/fhir/"
NOW = "2023-11-13T10:15:00+00:00"
ACCEPTED = (
    "POST request accepted and executed successfully. Please call FINISH if you have got answers for all the questions "
    "and finished all the requested tasks"
)
Json = dict[str, Any]


def transcript_posting(
    *posts: tuple[str, Any],
    finish: str,
    status: str = "completed",
    reply: str = ACCEPTED,
) -> Transcript:
    """A conversation that posts these (type or URL, payload), one after the other, and finishes."""
    turns = [Message("user", "the prompt")]
    for target, payload in posts:
        url = target if target.startswith("http") else f"{BASE}{target}"
        turns += [
            Message("agent", f"POST {url}\n{json.dumps(payload)}"),
            Message("user", reply),
        ]
    turns.append(Message("agent", f"FINISH({finish})"))
    return Transcript(status, finish, tuple(turns))


def without_value(payload: Json, *path: str | int) -> Json:
    """The payload without the value at this path."""

    def drop(node: Any, last: Any) -> None:
        del node[last]

    return _changed(payload, path, drop)


def with_value(payload: Json, value: Any, *path: str | int) -> Json:
    """The payload with another value at this path."""

    def put(node: Any, last: Any) -> None:
        node[last] = value

    return _changed(payload, path, put)


def _changed(
    payload: Json, path: tuple[str | int, ...], change: Callable[[Any, Any], None]
) -> Json:
    changed = copy.deepcopy(payload)
    node: Any = changed
    for step in path[:-1]:
        node = node[step]
    change(node, path[-1])
    return changed


def vital_sign_payload(mrn: str) -> Json:
    coding = {
        "system": "http://hl7.org/fhir/observation-category",
        "code": "vital-signs",
        "display": "Vital Signs",
    }
    return {
        "resourceType": "Observation",
        "category": [{"coding": [coding]}],
        "code": {"text": "BP"},
        "effectiveDateTime": NOW,
        "status": "final",
        "valueString": "118/77 mmHg",
        "subject": {"reference": f"Patient/{mrn}"},
    }


def medication_request_payload(mrn: str, ndc: str, route: Any, **amounts: Any) -> Json:
    return {
        "resourceType": "MedicationRequest",
        "medicationCodeableConcept": {
            "coding": [{"system": "http://hl7.org/fhir/sid/ndc", "code": ndc}],
            "text": "it",
        },
        "authoredOn": NOW,
        "dosageInstruction": [{"route": route, "doseAndRate": [amounts]}],
        "status": "active",
        "intent": "order",
        "subject": {"reference": f"Patient/{mrn}"},
    }


def magnesium_payload(mrn: str, grams: float) -> Json:
    amounts = {
        "doseQuantity": {"value": grams, "unit": "g"},
        "rateQuantity": {"value": grams, "unit": "h"},
    }
    return medication_request_payload(mrn, "0338-1715-40", "IV", **amounts)


def potassium_payload(mrn: str, dose: float) -> Json:
    return medication_request_payload(
        mrn, "40032-917-01", "oral", doseQuantity={"value": dose, "unit": "mEq"}
    )


def service_request_payload(mrn: str, system: str, code: str, **more: Any) -> Json:
    return {
        "resourceType": "ServiceRequest",
        "code": {"coding": [{"system": system, "code": code}]},
        "authoredOn": NOW,
        "status": "active",
        "intent": "order",
        "priority": "stat",
        "subject": {"reference": f"Patient/{mrn}"},
        **more,
    }
