"""The resource types of FHIR R4 (hl7.org/fhir/R4/resourcelist.html), and hints for typos."""

from archqa.core.near_misses import did_you_mean as nearest_names

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
    question = nearest_names(name, sorted(candidates), _MAX_SUGGESTIONS, _MIN_SIMILARITY)
    return f" {question}" if question else ""
