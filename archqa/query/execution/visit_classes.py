"""The class of an encounter: ambulatory, emergency, inpatient, virtual, home, and ICU by place.

Codes: http://terminology.hl7.org/CodeSystem/v3-ActCode (ActEncounterCode) and v3-RoleCode. In
MIMIC-IV on FHIR the identifier says it; there, the class is how the admission began.
"""

import re

from archqa.fhir import Resource
from archqa.fhir.views.encounters import EncounterKind, encounter_kind
from archqa.query.execution.chart import Chart
from archqa.query.execution.element_names import element_names, elements_at, reference_names
from archqa.query.execution.elements import objects_at, text_at

_CLASSES = {
    "AMB": "ambulatory",
    "SS": "ambulatory",
    "EMER": "emergency",
    "IMP": "inpatient",
    "ACUTE": "inpatient",
    "NONAC": "inpatient",
    "OBSENC": "inpatient",
    "VR": "virtual",
    "HH": "home",
    "FLD": "home",
}
_MIMIC_CLASSES = {
    EncounterKind.HOSPITAL: "inpatient",
    EncounterKind.ICU: "icu",
    EncounterKind.EMERGENCY: "emergency",
}
_MIMIC_IDENTIFIERS = ("encounter-hosp", "encounter-icu", "encounter-ed")
_ICU_ROLES = frozenset({"ICU", "PEDICU", "PEDNICU", "BURN"})
_ICU_NAME = re.compile(
    r"\b(?:intensive care|critical care)\b|\b(?:[a-z]{0,3}icu|ccu|tsicu|nicu)\b", re.IGNORECASE
)


def visit_classes(chart: Chart, encounter: Resource) -> tuple[str, ...]:
    """The classes of an encounter; most have one, a hospital stay with a place in the ICU two."""
    if _has_mimic_identifier(encounter):
        return (_MIMIC_CLASSES[encounter_kind(encounter)],)
    classes: dict[str, None] = {}
    for element in elements_at(encounter, ("class",)):
        name = _CLASSES.get(text_at(element, "code").upper(), "")
        if name:
            classes[name] = None
    if _is_icu(chart, encounter):
        classes["icu"] = None
    return tuple(classes)


def _has_mimic_identifier(encounter: Resource) -> bool:
    identifiers = objects_at(encounter, "identifier")
    return any(text_at(each, "system").endswith(_MIMIC_IDENTIFIERS) for each in identifiers)


def _is_icu(chart: Chart, encounter: Resource) -> bool:
    """Whether its type, its service or one of its places is an intensive care unit."""
    names: list[str] = []
    for element in elements_at(encounter, ("type", "serviceType")):
        names += element_names(chart, element)
    for reference in objects_at(encounter, "location.location"):
        names += reference_names(chart, reference)
        for location in chart.targets(reference):
            roles = objects_at(location, "type.coding")
            if any(text_at(role, "code") in _ICU_ROLES for role in roles):
                return True
    return any(_ICU_NAME.search(name) for name in names)
