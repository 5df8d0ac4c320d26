"""The resource types of FHIR R4, their elements at the root, and hints for typos.

Source: the StructureDefinitions of hl7.org/fhir/R4/resourcelist.html, in `resource_elements.tsv`.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from archqa.core.near_misses import did_you_mean as nearest_names
from archqa.core.tables import read_rows
from archqa.fhir.record import FhirError

_NAMES = """
Account ActivityDefinition AdverseEvent AllergyIntolerance Appointment AppointmentResponse
AuditEvent Basic Binary BiologicallyDerivedProduct BodyStructure Bundle CapabilityStatement CarePlan
CareTeam CatalogEntry ChargeItem ChargeItemDefinition Claim ClaimResponse ClinicalImpression
CodeSystem Communication CommunicationRequest CompartmentDefinition Composition ConceptMap Condition
Consent Contract Coverage CoverageEligibilityRequest CoverageEligibilityResponse DetectedIssue
Device DeviceDefinition DeviceMetric DeviceRequest DeviceUseStatement DiagnosticReport
DocumentManifest DocumentReference EffectEvidenceSynthesis Encounter Endpoint EnrollmentRequest
EnrollmentResponse EpisodeOfCare EventDefinition Evidence EvidenceVariable ExampleScenario
ExplanationOfBenefit FamilyMemberHistory Flag Goal GraphDefinition Group GuidanceResponse
HealthcareService ImagingStudy Immunization ImmunizationEvaluation ImmunizationRecommendation
ImplementationGuide InsurancePlan Invoice Library Linkage List Location Measure MeasureReport Media
Medication MedicationAdministration MedicationDispense MedicationKnowledge MedicationRequest
MedicationStatement MedicinalProduct MedicinalProductAuthorization MedicinalProductContraindication
MedicinalProductIndication MedicinalProductIngredient MedicinalProductInteraction
MedicinalProductManufactured MedicinalProductPackaged MedicinalProductPharmaceutical
MedicinalProductUndesirableEffect MessageDefinition MessageHeader MolecularSequence NamingSystem
NutritionOrder Observation ObservationDefinition OperationDefinition OperationOutcome Organization
OrganizationAffiliation Parameters Patient PaymentNotice PaymentReconciliation Person PlanDefinition
Practitioner PractitionerRole Procedure Provenance Questionnaire QuestionnaireResponse RelatedPerson
RequestGroup ResearchDefinition ResearchElementDefinition ResearchStudy ResearchSubject
RiskAssessment RiskEvidenceSynthesis Schedule SearchParameter ServiceRequest Slot Specimen
SpecimenDefinition StructureDefinition StructureMap Subscription Substance SubstanceNucleicAcid
SubstancePolymer SubstanceProtein SubstanceReferenceInformation SubstanceSourceMaterial
SubstanceSpecification SupplyDelivery SupplyRequest Task TerminologyCapabilities TestReport
TestScript ValueSet VerificationResult VisionPrescription
"""

R4_RESOURCE_TYPES = frozenset(_NAMES.split())
"""Every type a record may hold."""

_MAX_SUGGESTIONS = 3
_MIN_SIMILARITY = 0.7


def did_you_mean(name: str, candidates: frozenset[str]) -> str:
    """Return " Did you mean …?" with the nearest candidates, or nothing.

    The name itself is never quoted: it may be record text.
    """
    question = nearest_names(
        name,
        sorted(candidates),
        _MAX_SUGGESTIONS,
        _MIN_SIMILARITY,
    )
    return f" {question}" if question else ""


def check_resource_type(name: str) -> None:
    """Raise `FhirError` (404) for a type that R4 does not have."""
    if name not in R4_RESOURCE_TYPES:
        hint = did_you_mean(name, R4_RESOURCE_TYPES)
        raise FhirError(f"There is no such resource type.{hint}", 404, "not-supported")


ALWAYS = frozenset({"resourceType", "id", "meta", "implicitRules", "modifierExtension"})
"""Members that no part of a resource goes without: what it is, and what changes its meaning."""

_TYPES_OF_ALL = (
    "id:String meta:Meta implicitRules:String language:String text:Narrative"
    " contained:Resource* extension:Extension* modifierExtension:Extension*"
)
"""Elements of Resource and DomainResource (hl7.org/fhir/R4/domainresource.html)."""

_CHOICE = re.compile(r"(\w+)\[([\w,]+)\]")

MembersByElement = dict[str, frozenset[str]]
"""The JSON members of each element: those of `value` are `valueQuantity`, `valueString` …"""


@dataclass(frozen=True)
class ResourceElements:
    """The elements of a type. The sets hold JSON members; `summary` includes the mandatory ones.

    `members` knows a choice of types by all of its names: `value`, `value[x]`, `valueQuantity`.
    """

    mandatory: frozenset[str]
    summary: frozenset[str]
    members: MembersByElement


@cache
def resource_elements(resource_type: str) -> ResourceElements:
    """Return the elements of a type. Raises `KeyError` for a type that R4 does not have."""
    members: MembersByElement = {}
    columns = []
    for cell in (*_cells()[resource_type], f"resourceType {_TYPES_OF_ALL}"):
        column: set[str] = set()
        columns.append(column)
        for element in cell.split():
            choice = _CHOICE.fullmatch(element)
            if choice is None:
                element = element.partition(":")[0]
                members[element] = _single(element)
                column.add(element)
                continue
            name, types = choice.groups()
            choices = [f"{name}{type_name}" for type_name in types.split(",")]
            for member in choices:
                members[member] = _single(member)
            members[name] = members[f"{name}[x]"] = frozenset(choices)
            column.update(choices)
    mandatory, summary, *_ = columns
    return ResourceElements(
        mandatory=frozenset(mandatory),
        summary=frozenset(mandatory | summary),
        members=members,
    )


class ElementType(NamedTuple):
    """The type of an element, and whether it is a list of them."""

    name: str
    is_list: bool


@cache
def element_types(type_name: str) -> dict[str, ElementType] | None:
    """Return the types of the elements of a resource or of a data type; None for a primitive type.

    An element of no known type is absent.
    """
    cells = _cells().get(type_name)
    if cells is None:
        return None
    common = _TYPES_OF_ALL if type_name in R4_RESOURCE_TYPES else ""
    types = {}
    for element in " ".join((common, *cells)).split():
        choice = _CHOICE.fullmatch(element)
        if choice is not None:
            for name in choice[2].split(","):
                types[f"{choice[1]}{name}"] = ElementType(name, False)
            continue
        member, _, name = element.partition(":")
        if name:
            types[member] = ElementType(name.rstrip("*"), name.endswith("*"))
    return types


def _single(name: str) -> frozenset[str]:
    return frozenset({name})


@cache
def elements_of_any_type() -> frozenset[str]:
    """Return the names of the elements that any type has."""
    names: set[str] = set()
    for resource_type in R4_RESOURCE_TYPES:
        names.update(resource_elements(resource_type).members)
    return frozenset(names)


@cache
def _cells() -> dict[str, tuple[str, ...]]:
    """Return the mandatory elements of each type, others of the summary, and all others.

    The elements of data types are all among the others.
    """
    rows = read_rows("fhir/values/resource_elements.tsv", 4)
    return {resource_type: tuple(cells) for resource_type, *cells in rows}
