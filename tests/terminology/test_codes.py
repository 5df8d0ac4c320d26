"""Codes of a record against concepts: by code first, by whole words of the display elsewhere."""

import pytest

from archqa.terminology.codes import matches_code
from archqa.terminology.concept import ConceptKind
from archqa.terminology.concepts import concept_named

LOINC = "http://loinc.org"
SNOMED = "http://snomed.info/sct"
RXNORM = "http://www.nlm.nih.gov/research/umls/rxnorm"
CVX = "http://hl7.org/fhir/sid/cvx"
ICD_10 = "http://hl7.org/fhir/sid/icd-10-cm"
ICD_9 = "http://hl7.org/fhir/sid/icd-9-cm"
MIMIC = "http://mimic.mit.edu/fhir/mimic/CodeSystem/"
MIMIC_LABS = MIMIC + "mimic-d-labitems"
LOCAL = "http://hospital.example/labs"


def _matches(
    kind: ConceptKind,
    name: str,
    system: str | None,
    code: str | None,
    display: str | None,
) -> bool:
    return matches_code(concept_named(kind, name), system, code, display)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("creatinine", "2160-0"),
        ("creatinine", "38483-4"),
        ("glucose", "2345-7"),
        ("glucose", "2339-0"),
        ("hemoglobin a1c", "17856-6"),
        ("blood pressure", "55284-4"),
        ("systolic blood pressure", "8480-6"),
        ("oxygen saturation", "2708-6"),
    ],
)
def test_all_codes_of_one_measurement_are_that_measurement(
    name: str, code: str
) -> None:
    assert _matches("measurement", name, LOINC, code, "whatever the record says")
    assert _matches("measurement", name, "urn:oid:2.16.840.1.113883.6.1", code, None)


@pytest.mark.parametrize(
    ("name", "code", "display"),
    [
        ("hemoglobin", "4548-4", "Hemoglobin"),
        ("glucose", "5792-7", "Glucose"),
        ("creatinine", "2161-8", "Creatinine"),
        ("systolic blood pressure", "8462-4", "Systolic blood pressure"),
    ],
)
def test_a_loinc_code_decides_against_the_display(
    name: str, code: str, display: str
) -> None:
    assert not _matches("measurement", name, LOINC, code, display)


@pytest.mark.parametrize(
    ("name", "display"),
    [
        ("creatinine", "Creatinine"),
        ("creatinine", "Creatinine (serum)"),
        ("creatinine", "Creatinine [Mass/volume] in Serum or Plasma"),
        ("potassium", "Potassium, Whole Blood"),
        ("urea nitrogen", "Urea Nitrogen"),
        ("hemoglobin a1c", "% Hemoglobin A1c"),
        ("oxygen saturation", "O2 saturation pulseoxymetry"),
        ("alanine aminotransferase", "Alanine Aminotransferase (ALT)"),
        ("systolic blood pressure", "Non Invasive Blood Pressure systolic"),
    ],
)
def test_a_local_code_matches_by_its_display(name: str, display: str) -> None:
    assert _matches("measurement", name, LOCAL, "17", display)
    assert _matches("measurement", name, None, None, display)


@pytest.mark.parametrize(
    ("name", "display"),
    [
        ("hemoglobin", "% Hemoglobin A1c"),
        ("hemoglobin", "Carboxyhemoglobin"),
        ("glucose", "Glucose, Urine"),
        ("glucose", "Glucose, CSF"),
        ("creatinine", "Creatinine Clearance"),
        ("albumin", "Albumin/Creatinine, Urine"),
        ("heart rate", "Heart Rate Alarm - Low"),
        ("oxygen saturation", "O2 Saturation Pulseoxymetry Alarm - High"),
        ("blood pressure", "Pressure"),
        ("iron", "Iron Binding Capacity, Total"),
        ("total bilirubin", "Bilirubin, Direct"),
        ("oxygen saturation", "Oxygen"),
        ("creatinine", "Blood"),
        ("creatinine", ""),
    ],
)
def test_a_display_with_another_word_is_another_measurement(
    name: str, display: str
) -> None:
    assert not _matches("measurement", name, LOCAL, "17", display)


def test_a_local_code_that_the_tables_know_is_never_taken_for_something_else() -> None:
    assert _matches("measurement", "glucose", MIMIC_LABS, "50931", "Glucose")
    assert not _matches("measurement", "glucose", MIMIC_LABS, "51478", "Glucose")
    assert _matches("measurement", "urine glucose", MIMIC_LABS, "51478", "Glucose")
    assert not _matches(
        "measurement", "lymphocytes percent", MIMIC_LABS, "51116", "Lymphocytes"
    )


@pytest.mark.parametrize(
    ("name", "system", "code"),
    [
        ("hypertension", ICD_10, "I10"),
        ("type 2 diabetes", ICD_10, "E11.9"),
        ("diabetes mellitus", ICD_10, "E11.65"),
        ("type 2 diabetes", ICD_9, "250.00"),
        ("type 2 diabetes", MIMIC + "mimic-diagnosis-icd9", "25062"),
        ("type 1 diabetes", ICD_9, "250.03"),
        ("heart attack", MIMIC + "mimic-diagnosis-icd10", "I214"),
        ("diverticulitis", ICD_10, "K57.32"),
    ],
)
def test_icd_codes_match_by_prefix_with_and_without_dot(
    name: str, system: str, code: str
) -> None:
    assert _matches("condition", name, system, code, None)


@pytest.mark.parametrize(
    ("name", "system", "code", "display"),
    [
        ("type 2 diabetes", ICD_10, "E10.9", "diabetes type 2"),
        ("type 1 diabetes", ICD_9, "250.00", None),
        ("diverticulitis", ICD_10, "K57.30", "Diverticulosis"),
        ("diabetes mellitus", ICD_10, "R73.03", "Prediabetes"),
        ("stroke", ICD_10, "Z86.73", "Personal history of stroke"),
        ("overdose", ICD_10, "T36.0X5A", "Adverse effect of penicillins"),
    ],
)
def test_another_icd_code_is_another_condition(
    name: str, system: str, code: str, display: str | None
) -> None:
    assert not _matches("condition", name, system, code, display)


@pytest.mark.parametrize(
    ("name", "display"),
    [
        ("asthma", "Severe persistent asthma (disorder)"),
        ("diabetes mellitus", "Neuropathy due to type 2 diabetes mellitus (disorder)"),
        ("fracture", "Closed fracture of three ribs"),
        ("anemia", "Anaemia in pregnancy"),
    ],
)
def test_a_snomed_code_that_is_not_listed_matches_by_its_display(
    name: str, display: str
) -> None:
    assert _matches("condition", name, SNOMED, "999", display)


@pytest.mark.parametrize(
    ("name", "display"),
    [
        ("diabetes mellitus", "Prediabetes (finding)"),
        ("diabetes mellitus", "Diabetes insipidus"),
        ("lung cancer", "Suspected lung cancer (situation)"),
        ("lung cancer", "Secondary malignant neoplasm of lung"),
        ("breast cancer", "Screening for malignant neoplasm of breast"),
        ("breast cancer", "Family history of breast cancer"),
        ("asthma", "FH: Asthma"),
        ("cough", "No cough"),
        ("chest pain", "Chest pain not present"),
        ("gout", "Pseudogout"),
        ("hepatitis b", "Hepatitis B vaccination"),
        ("hypertension", "Pulmonary hypertension"),
        ("bleeding disorder", "Anticoagulant-induced bleeding (disorder)"),
        ("eclampsia", "Pre-eclampsia"),
    ],
)
def test_a_display_that_says_something_else_does_not_match(
    name: str, display: str
) -> None:
    assert not _matches("condition", name, SNOMED, "999", display)


@pytest.mark.parametrize(
    ("kind", "name", "system", "code", "display"),
    [
        ("condition", "heart attack", SNOMED, "399211009", None),
        ("condition", "breast cancer", ICD_10, "Z85.3", None),
        ("condition", "seizures", SNOMED, "999", "History of seizure (situation)"),
        (
            "condition",
            "tobacco use disorder",
            SNOMED,
            "8517006",
            "Tobacco use disorder",
        ),
        ("procedure", "appendectomy", SNOMED, "428251008", None),
        ("procedure", "pacemaker insertion", ICD_10, "Z95.0", None),
        ("procedure", "coronary artery bypass", ICD_9, "V45.81", None),
    ],
)
def test_a_history_counts_only_where_the_past_is_asked_for(
    kind: ConceptKind, name: str, system: str, code: str, display: str | None
) -> None:
    concept = concept_named(kind, name)
    assert not matches_code(concept, system, code, display)
    assert matches_code(concept, system, code, display, past=True)


def test_a_diagnosis_of_icd_9_is_no_procedure_with_the_same_digits() -> None:
    bypass = concept_named("procedure", "coronary artery bypass")
    assert matches_code(bypass, ICD_9, "36.11", None)
    assert not matches_code(bypass, ICD_9, "361.10", "Retinal detachment", past=True)
    assert not matches_code(
        bypass, MIMIC + "mimic-diagnosis-icd9", "36110", None, past=True
    )


def test_a_family_history_is_never_the_patients_own() -> None:
    concept = concept_named("condition", "breast cancer")
    display = "Family history of breast cancer"
    assert not matches_code(concept, SNOMED, "999", display, past=True)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("influenza vaccine", "140"),
        ("tetanus vaccine", "113"),
        ("tetanus vaccine", "115"),
        ("mmr vaccine", "03"),
        ("mmr vaccine", "3"),
        ("shingles vaccine", "187"),
        ("covid-19 vaccine", "208"),
    ],
)
def test_vaccines_match_by_cvx_with_and_without_leading_zero(
    name: str, code: str
) -> None:
    assert _matches("vaccine", name, CVX, code, None)


def test_another_cvx_code_is_another_vaccine_whatever_it_is_called() -> None:
    assert not _matches("vaccine", "td vaccine", CVX, "115", "Td (adult)")
    assert not _matches(
        "vaccine", "influenza vaccine", CVX, "49", "Haemophilus influenza b"
    )
    assert not _matches(
        "vaccine", "influenza vaccine", None, None, "Haemophilus influenza b"
    )


@pytest.mark.parametrize(
    ("name", "display"),
    [
        ("statin", "Simvastatin 10 MG Oral Tablet"),
        ("blood thinner", "0.4 ML Enoxaparin sodium 100 MG/ML Prefilled Syringe"),
        ("blood thinner", "Clopidogrel 75 MG Oral Tablet"),
        ("opioid", "Acetaminophen 325 MG / Hydrocodone Bitartrate 7.5 MG Oral Tablet"),
        ("contraceptive pill", "Yaz 28 Day Pack"),
        ("contraceptive ring", "NuvaRing 0.12/0.015 MG per 24HR 21 Day Vaginal System"),
        ("intrauterine device", "Mirena 52 MG Intrauterine System"),
        ("glaucoma eye drops", "Preservative-Free timolol 5 MG/ML Ophthalmic Solution"),
        ("eye drops", "tropicamide 5 MG/ML Ophthalmic Solution"),
        ("beta blocker", "timolol 10 MG Oral Tablet"),
        (
            "inhaler",
            "120 ACTUAT fluticasone propionate 0.11 MG/ACTUAT Metered Dose Inhaler",
        ),
        ("penicillin", "Allergy to penicillin (finding)"),
        ("insulin", "Insulin"),
    ],
)
def test_a_medicine_belongs_to_the_classes_of_its_ingredients(
    name: str, display: str
) -> None:
    assert _matches("drug_class", name, RXNORM, "999", display)


@pytest.mark.parametrize(
    ("name", "display"),
    [
        ("statin", "Nystatin 100000 UNT/ML Oral Suspension"),
        ("contraceptive pill", "Mirena 52 MG Intrauterine System"),
        ("beta blocker", "timolol 5 MG/ML Ophthalmic Solution"),
        ("glaucoma eye drops", "timolol 10 MG Oral Tablet"),
        ("inhaled steroid", "fluticasone propionate 0.05 MG/ACTUAT Nasal Spray"),
        ("potassium supplement", "Losartan Potassium 25 MG Oral Tablet"),
        ("calcium supplement", "rosuvastatin calcium 10 MG Oral Tablet"),
        ("opioid", "Naloxone 0.4 MG/ML Injectable Solution"),
        ("eye drops", "Simvastatin 10 MG Oral Tablet"),
        ("statin", None),
    ],
)
def test_a_medicine_belongs_to_no_other_class(name: str, display: str | None) -> None:
    assert not _matches("drug_class", name, RXNORM, "999", display)


def test_a_drug_matches_every_product_that_has_all_its_ingredients() -> None:
    combined = "Acetaminophen 325 MG / Oxycodone Hydrochloride 5 MG Oral Tablet"
    assert _matches("drug", "acetaminophen", RXNORM, "999", combined)
    assert _matches("drug", "acetaminophen / oxycodone", RXNORM, "999", combined)
    alone = "Acetaminophen 325 MG Oral Tablet"
    assert not _matches("drug", "acetaminophen / oxycodone", RXNORM, "999", alone)


def test_an_rxnorm_ingredient_code_needs_no_display() -> None:
    assert _matches("drug", "aspirin", RXNORM, "1191", None)
    assert _matches("drug_class", "penicillin", RXNORM, "7984", None)
    assert not _matches("drug", "aspirin", RXNORM, "7984", None)


@pytest.mark.parametrize(
    ("name", "system", "code"),
    [
        ("colonoscopy", SNOMED, "73761001"),
        ("colonoscopy", MIMIC + "mimic-procedure-icd9", "4523"),
        ("colonoscopy", ICD_9, "45.23"),
        ("colonoscopy", MIMIC + "mimic-procedure-icd10", "0DJD8ZZ"),
        ("coronary stent", "http://www.cms.gov/Medicare/Coding/ICD10", "027034Z"),
        ("dialysis", MIMIC + "mimic-procedure-icd10", "5A1D70Z"),
    ],
)
def test_procedures_match_by_their_codes(name: str, system: str, code: str) -> None:
    assert _matches("procedure", name, system, code, None)


@pytest.mark.parametrize(
    ("name", "system", "code", "display"),
    [
        ("coronary stent", "http://www.cms.gov/Medicare/Coding/ICD10", "02703ZZ", None),
        ("cardiac catheterization", MIMIC + "mimic-procedure-icd10", "4A02X4Z", None),
        ("stress test", SNOMED, "999", "Stress management (procedure)"),
        ("colonoscopy", SNOMED, "999", "Colonoscopy planned (situation)"),
        (
            "kidney transplant",
            SNOMED,
            "999",
            "Awaiting transplantation of kidney (situation)",
        ),
        ("coronary artery bypass", SNOMED, "999", "Gastric bypass"),
    ],
)
def test_another_procedure_does_not_match(
    name: str, system: str, code: str, display: str | None
) -> None:
    assert not _matches("procedure", name, system, code, display)
