"""The resource types of FHIR R4 (hl7.org/fhir/R4/resourcelist.html), and what a mistaken one may have meant."""

import difflib

_NAMES = """
Account ActivityDefinition AdverseEvent AllergyIntolerance Appointment AppointmentResponse AuditEvent Basic Binary
BiologicallyDerivedProduct BodyStructure Bundle CapabilityStatement CarePlan CareTeam CatalogEntry ChargeItem
ChargeItemDefinition Claim ClaimResponse ClinicalImpression CodeSystem Communication CommunicationRequest
CompartmentDefinition Composition ConceptMap Condition Consent Contract Coverage CoverageEligibilityRequest
CoverageEligibilityResponse DetectedIssue Device DeviceDefinition DeviceMetric DeviceRequest DeviceUseStatement
DiagnosticReport DocumentManifest DocumentReference EffectEvidenceSynthesis Encounter Endpoint EnrollmentRequest
EnrollmentResponse EpisodeOfCare EventDefinition Evidence EvidenceVariable ExampleScenario ExplanationOfBenefit
FamilyMemberHistory Flag Goal GraphDefinition Group GuidanceResponse HealthcareService ImagingStudy Immunization
ImmunizationEvaluation ImmunizationRecommendation ImplementationGuide InsurancePlan Invoice Library Linkage List
Location Measure MeasureReport Media Medication MedicationAdministration MedicationDispense MedicationKnowledge
MedicationRequest MedicationStatement MedicinalProduct MedicinalProductAuthorization
MedicinalProductContraindication MedicinalProductIndication MedicinalProductIngredient MedicinalProductInteraction
MedicinalProductManufactured MedicinalProductPackaged MedicinalProductPharmaceutical
MedicinalProductUndesirableEffect MessageDefinition MessageHeader MolecularSequence NamingSystem NutritionOrder
Observation ObservationDefinition OperationDefinition OperationOutcome Organization OrganizationAffiliation
Parameters Patient PaymentNotice PaymentReconciliation Person PlanDefinition Practitioner PractitionerRole Procedure
Provenance Questionnaire QuestionnaireResponse RelatedPerson RequestGroup ResearchDefinition
ResearchElementDefinition ResearchStudy ResearchSubject RiskAssessment RiskEvidenceSynthesis Schedule
SearchParameter ServiceRequest Slot Specimen SpecimenDefinition StructureDefinition StructureMap Subscription
Substance SubstanceNucleicAcid SubstancePolymer SubstanceProtein SubstanceReferenceInformation
SubstanceSourceMaterial SubstanceSpecification SupplyDelivery SupplyRequest Task TerminologyCapabilities TestReport
TestScript ValueSet VerificationResult VisionPrescription
"""

R4_RESOURCE_TYPES = frozenset(_NAMES.split())
"""Every type a record may hold."""


def did_you_mean(word: str, known: frozenset[str]) -> str:
    """A half-sentence that names near known words, or nothing. Never quotes the word itself: it may be record text."""
    folded = {each.lower(): each for each in known}
    near = [
        folded[each]
        for each in difflib.get_close_matches(word.lower()[:64], folded, n=3, cutoff=0.7)
    ]
    return f" Did you mean {' or '.join(near)}?" if near else ""
