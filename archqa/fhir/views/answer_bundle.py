"""An answer as FHIR R4: a QuestionnaireResponse, and a Provenance for each line with what it cites.

    {"resourceType": "Bundle", "type": "collection", "entry": [...]}

Sources: hl7.org/fhir/R4/questionnaireresponse.html, provenance.html, device.html, and the extension
targetElement (hl7.org/fhir/StructureDefinition/targetElement), by which a Provenance is of one line.
References to what is cited are relative: they are of the record that was asked.
"""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from archqa.fhir.record import Resource
from archqa.fhir.values.references import parse_reference

_NAMESPACE = uuid.UUID("6f1c7a52-0f0b-5d0e-9c41-6a2f8d3b7e10")
_URN = "urn:uuid:"
_TARGET_ELEMENT = "http://hl7.org/fhir/StructureDefinition/targetElement"
_PARTICIPANT = "http://terminology.hl7.org/CodeSystem/provenance-participant-type"
_OPERATION = "http://terminology.hl7.org/CodeSystem/v3-DataOperation"


class AnsweredLine(NamedTuple):
    """A line of an answer; `citations` are `Type/id`, `Type/id#4` or a sentence of a note."""

    text: str
    citations: tuple[str, ...]


class AnsweredQuestion(NamedTuple):
    """An answer, at a time with a zone. `message` stands where there are no lines.

    `model` is named where one took part; `remarks` are what a reader must know.
    """

    question: str
    status: str
    lines: tuple[AnsweredLine, ...]
    at: datetime
    version: str
    message: str = ""
    patient: str | None = None
    model: str = ""
    remarks: tuple[str, ...] = ()
    name: str = ""


def answer_bundle(answers: Sequence[AnsweredQuestion], at: datetime) -> Resource:
    """Return a Bundle of type collection with all answers."""
    resources: dict[str, Resource] = {}
    for answer in answers:
        resources.update(_resources(answer))
    entries = []
    for url, resource in resources.items():
        members = {**resource}
        resource_type = members.pop("resourceType")
        with_id = {
            "resourceType": resource_type,
            "id": url.removeprefix(_URN),
            **members,
        }
        entries.append({"fullUrl": url, "resource": with_id})
    bundle: Resource = {
        "resourceType": "Bundle",
        "type": "collection",
        "timestamp": _instant(at),
    }
    if entries:
        bundle["entry"] = entries
    return bundle


def _resources(answer: AnsweredQuestion) -> Iterator[tuple[str, Resource]]:
    """Yield the URL and the resource of each entry; equal answers have equal URLs."""
    software = _url("archqa", answer.version)
    device = _device(
        "archqa", "user-friendly-name", "software that answers from health records"
    )
    if answer.version:
        device["version"] = [{"value": answer.version}]
    yield software, device
    agents = [_agent("assembler", software)]
    if answer.model:
        model = _url("model", answer.model)
        yield model, _device(answer.model, "model-name", "language model")
        agents.append(_agent("author", model))
    response = _url(
        "response",
        answer.name,
        answer.question,
        str(answer.patient),
        str(answer.at),
    )
    subject = (
        {"subject": {"reference": f"Patient/{answer.patient}"}}
        if answer.patient
        else {}
    )
    questionnaire_response = {
        "resourceType": "QuestionnaireResponse",
        "status": "completed",
        **subject,
        "authored": _instant(answer.at),
        "author": {"reference": software},
        "item": list(_items(answer)),
    }
    yield response, questionnaire_response
    for number, line in enumerate(answer.lines, start=1):
        target = _url("provenance", response, str(number))
        yield target, _provenance(answer, response, number, line.citations, agents)
    if not answer.lines:
        yield (
            _url("provenance", response),
            _provenance(answer, response, None, (), agents),
        )


def _device(name: str, kind: str, what: str) -> Resource:
    return {
        "resourceType": "Device",
        "deviceName": [{"name": name, "type": kind}],
        "type": {"text": what},
    }


def _agent(role: str, device: str) -> Resource:
    coding = {"system": _PARTICIPANT, "code": role}
    return {"type": {"coding": [coding]}, "who": {"reference": device}}


def _items(answer: AnsweredQuestion) -> Iterator[Resource]:
    values = [
        {"id": _line_id(number), "valueString": line.text}
        for number, line in enumerate(answer.lines, start=1)
    ]
    if not values and answer.message:
        values = [{"valueString": answer.message}]
    yield _item("answer", answer.question, values)
    yield _item("status", "Status", [{"valueString": answer.status}])
    if answer.remarks:
        remarks = [{"valueString": remark} for remark in answer.remarks]
        yield _item("remarks", "Remarks", remarks)


def _item(link_id: str, text: str, values: list[dict[str, str]]) -> Resource:
    item: Resource = {"linkId": link_id, **({"text": text} if text.strip() else {})}
    filled = [value for value in values if value["valueString"].strip()]
    return {**item, "answer": filled} if filled else item


def _provenance(
    answer: AnsweredQuestion,
    response: str,
    line: int | None,
    citations: Iterable[str],
    agents: list[Resource],
) -> Resource:
    target: Resource = {"reference": response}
    if line is not None:
        target["extension"] = [{"url": _TARGET_ELEMENT, "valueUri": _line_id(line)}]
    entities = [{"role": "source", "what": _cited(citation)} for citation in citations]
    return {
        "resourceType": "Provenance",
        "target": [target],
        "recorded": _instant(answer.at),
        "activity": {"coding": [{"system": _OPERATION, "code": "CREATE"}]},
        "agent": agents,
        **({"entity": entities} if entities else {}),
    }


def _cited(citation: str) -> Resource:
    """Return a reference to what is cited; a sentence of a note is named beside its document."""
    name, _, sentence = citation.partition("#")
    target = parse_reference(name) if "/" in name else None
    if target is None or not target.type:
        return {"display": f"sentence {citation} of the note"}
    reference: Resource = {"reference": f"{target.type}/{target.id}"}
    return {**reference, "display": f"sentence {sentence}"} if sentence else reference


def _line_id(number: int) -> str:
    return f"line-{number}"


def _url(*parts: str) -> str:
    return f"{_URN}{uuid.uuid5(_NAMESPACE, chr(10).join(parts))}"


def _instant(time: datetime) -> str:
    return (
        time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )
