"""Labels of laboratories and monitors against the measurements that they name, or only resemble."""

import pytest

from archqa.terminology.codes import measurements_coded
from archqa.terminology.labels import measurements_named, measurements_near

LABELS = {
    "glucose": [
        "GLUCOSE, POCT",
        "Glucose, Whole Blood POCT",
        "Glucose (mmol/L)",
        "Blutzucker",
    ],
    "troponin t": ["hs-Troponin T", "Troponin T Gen 5"],
    "creatinine": [
        "CREAT SERPL-MCNC",
        "Creat (POC)",
        "Kreatinin",
        "Kreatinin i.S.",
        "Creatinine Lvl",
        "CREATININE [MASS/VOLUME] IN SERUM OR PLASMA",
    ],
    "potassium": [
        "K+",
        "K+ (POTASSIUM)",
        "Kalium (Plasma)",
        "K SerPl-sCnc",
        "Potassium [Moles/volume] in Venous blood",
    ],
    "hemoglobin": ["Hgb", "HGB, iSTAT", "Hämoglobin", "Hgb Bld-mCnc"],
    "hemoglobin a1c": [
        "HbA1c (IFCC)",
        "GLYCOHEMOGLOBIN (A1C)",
        "Hgb A1c MFr Bld",
        "Hemoglobin A1c/Hemoglobin.total [Pure mass fraction] in Blood",
    ],
    "urea nitrogen": ["BUN", "UREA NITROGEN, BLD", "Harnstoff"],
    "alanine aminotransferase": ["SGPT (ALT)", "ALT/SGPT", "GPT (ALT)"],
    "platelets": ["PLT COUNT", "Thrombozyten", "Platelet # Bld Auto"],
    "total bilirubin": [
        "Bili total",
        "T BILI",
        "Bilirubin gesamt",
        "Bilirub SerPl-mCnc",
    ],
    "sodium": ["Na", "SODIUM, SERUM", "Natrium", "Sodium Lvl"],
    "estimated glomerular filtration rate": [
        "eGFR CKD-EPI",
        "eGFR Non-African American",
        "GFR/BSA.pred SerPlBld CKD-EPI-ArVRat",
    ],
    "white blood cells": ["WBC, AUTOMATED", "Leukozyten", "WBC # Bld Auto"],
    "free thyroxine": ["Free T4 (FT4)"],
    "red blood cells": ["Erythrozyten"],
    "aspartate aminotransferase": ["GOT (AST)", "ASAT (GOT)", "SGOT"],
    "gamma glutamyl transferase": ["γ-GT", "GGT"],
    "alkaline phosphatase": ["Alk Phos", "Alk Phos, Total"],
    "direct bilirubin": ["Bilirub Direct SerPl-mCnc"],
    "ionized calcium": ["Ca-I SerPl-sCnc", "Calcium, Ionized"],
    "troponin i": [
        "i-STAT Troponin I",
        "High Sensitivity Troponin I",
        "Cardiac Troponin I",
        "cTnI",
    ],
    "lactate": ["Lactic Acid, Venous", "Lactate (ABG)"],
    "c-reactive protein": ["CRP, High Sensitivity"],
    "thyroid stimulating hormone": ["TSH w/ reflex to FT4", "TSH 3RD GEN"],
    "neutrophils": ["Neutrophils, Abs"],
    "lymphocytes": ["ABS LYMPHS"],
    "neutrophils percent": ["Neutrophils %"],
    "inr": ["PT-INR", "INR (POC)"],
    "ldl cholesterol": ["LDL Calc"],
    "total cholesterol": ["Cholesterol, Total"],
    "hdl cholesterol": ["HDL-C"],
    "total protein": ["Protein, Total"],
    "albumin": ["Albumin (BCG)"],
    "bicarbonate": ["CO2 (Bicarb)", "CO2, Total"],
    "chloride": ["Chloride (Cl-)"],
    "magnesium": ["Mg (Magnesium)"],
    "phosphate": ["Phos", "Phosphorus, Inorganic"],
    "vitamin d": ["25-OH Vitamin D, Total", "VIT D,25-HYDROXY"],
    "urine creatinine": ["Creatinine, Random Urine", "Creat Ur-mCnc"],
    "heart rate": ["Heart Rate (bpm)"],
    "body temperature": ["Temp Oral"],
    "systolic blood pressure": ["BP Systolic"],
    "oxygen saturation": ["SpO2 (%)", "Pulse Ox"],
    "sedimentation rate": ["Erythrocyte Sed Rate"],
    "nt-probnp": ["NT-proBNP"],
    "d-dimer": ["D-Dimer, Quant"],
    "lipase": ["Lipase, Serum"],
    "creatine kinase": ["Total CK"],
    "red cell distribution width": [
        "RDW-CV",
        "Erythrocyte distribution width [Ratio] by Automated count",
    ],
    "mean corpuscular volume": ["MCV [Entitic volume] by Automated count"],
    "ferritin": ["Ferritin Lvl"],
    "vitamin b12": ["Vitamin B12 Lvl"],
    "calcium": ["Calcium, Total"],
    "uric acid": ["Uric Acid (mg/dL)"],
    "lactate dehydrogenase": ["LDH, Total"],
    "antinuclear antibody": ["ANA titer", "ANA"],
    "partial thromboplastin time": ["PTT (ACTIVATED)", "aPTT"],
    "prostate specific antigen": ["PSA, TOTAL"],
}
"""Spellings of laboratories, of Epic, Cerner and VistA, and short names of LOINC, by measurement."""

NEAR_MISSES = [
    ("creatinine", "Creatinine, Urine"),
    ("glucose", "Glucose, CSF"),
    ("glucose", "Glucose [Mass/volume] in Cerebrospinal fluid"),
    ("glucose", "Urine glucose"),
    ("glucose", "Glucose, pleural fluid"),
    ("thyroxine", "T4, Free"),
    ("free thyroxine", "T4"),
    ("troponin t", "Troponin I"),
    ("troponin i", "Troponin T"),
    ("calcium", "Ionized Ca"),
    ("total bilirubin", "Bilirubin, Direct"),
    ("hemoglobin", "Hemoglobin A1c"),
    ("hemoglobin", "HbA1c"),
    ("creatinine", "Creatinine clearance"),
    ("albumin", "Albumin/Creatinine Ratio"),
    ("creatinine", "Albumin/Creatinine Ratio"),
    ("creatinine", "BUN/Creatinine"),
    ("urea nitrogen", "BUN/Creat Ratio"),
    ("hemoglobin", "Mean corpuscular hemoglobin"),
    ("hemoglobin", "Fetal hemoglobin"),
    ("hemoglobin", "Plasma hemoglobin"),
    ("hemoglobin", "Hemoglobin, Plasma Free"),
    ("sodium", "Sodium, Urine"),
    ("potassium", "Potassium, Body Fluid"),
    ("calcium", "Calcium, corrected"),
    ("prostate specific antigen", "Free PSA"),
    ("testosterone", "Testosterone, Free"),
    ("creatine kinase", "CK-MB"),
    ("total protein", "Protein C"),
    ("total protein", "C-Reactive Protein"),
    ("ldl cholesterol", "LDL/HDL Ratio"),
    ("hdl cholesterol", "Non-HDL Cholesterol"),
    ("iron", "Iron Saturation"),
    ("white blood cells", "WBC, CSF"),
    ("red blood cells", "RBC, Urine"),
    ("neutrophils percent", "Neutrophils, Abs"),
    ("calcium", "CA 15-3"),
    ("folate", "RBC folate"),
    ("vitamin d", "Vitamin D 1,25"),
    ("glucose", "Glucose tolerance 2 h"),
    ("total protein", "Protein"),
    ("oxygen saturation", "Oxygen"),
    ("blood pressure", "Pressure"),
    ("uric acid", "Uric acid, urine"),
    ("albumin", "Microalbumin"),
    ("glucose", "Cord blood glucose"),
    ("total bilirubin", "Neonatal bilirubin"),
    ("lactate", "Lactate dehydrogenase"),
    ("platelets", "Platelet function"),
    ("glucose", "eAG"),
    ("hemoglobin", "Hemoglobin S"),
    ("hemoglobin", "Hgb F"),
    ("triiodothyronine", "T3 uptake"),
    ("triiodothyronine", "Free T3"),
    ("glucose", "Glucose, 2 hr post prandial"),
    ("creatinine", "Creatinine, 24 hr urine"),
    ("calcium", "Calcium/Creatinine, Urine"),
    ("amylase", "Amylase, pleural fluid"),
    ("hdl cholesterol", "Chol/HDL Ratio"),
    ("body weight", "Ideal body weight"),
    ("body temperature", "Skin temperature"),
    ("blood pressure", "Pulse pressure"),
    ("sodium", "Sodium intake"),
    ("insulin level", "Insulin antibody"),
    ("lymphocytes percent", "Total Lymphocytes"),
]
"""Measurements, and labels that share words with them and are another test."""


@pytest.mark.parametrize(
    ("name", "label"),
    [(name, label) for name, labels in LABELS.items() for label in labels],
)
def test_a_label_names_one_measurement(name: str, label: str) -> None:
    assert [concept.name for concept in measurements_named(label)] == [name]


@pytest.mark.parametrize(("name", "label"), NEAR_MISSES)
def test_a_similar_label_is_another_test(name: str, label: str) -> None:
    assert name not in [concept.name for concept in measurements_named(label)]


def test_a_troponin_that_is_not_specified_may_be_either() -> None:
    names = {concept.name for concept in measurements_named("Troponin")}
    assert names == {"troponin i", "troponin t"}


@pytest.mark.parametrize("label", ["", "Whole blood", "(mg/dL)", "COMMENT", "Zyx 17"])
def test_a_label_without_a_name_of_a_measurement_names_none(label: str) -> None:
    assert not measurements_named(label)
    assert not measurements_near(label)


def test_next_to_a_listed_code_a_text_names_nothing_else() -> None:
    loinc = "http://loinc.org"
    urine = (loinc, "2161-8", "Creatinine [Mass/volume] in Urine")
    text = ("", "", "Creatinine")
    assert [each.name for each in measurements_coded((urine, text))] == [
        "urine creatinine"
    ]
    assert [each.name for each in measurements_coded((text,))] == ["creatinine"]


def test_a_code_that_no_table_lists_is_named_by_its_display() -> None:
    display = "Hemoglobin A1c/Hemoglobin.total [Pure mass fraction] in Blood"
    coding = ("http://loinc.org", "71875-9", display)
    assert [each.name for each in measurements_coded((coding,))] == ["hemoglobin a1c"]
    fluid = ("http://loinc.org", "12190-5", "Creatinine [Mass/volume] in Body fluid")
    assert measurements_coded((fluid,)) == ()


def test_labels_that_share_words_are_near() -> None:
    near = {concept.name for concept in measurements_near("Creatinine, Urine")}
    assert "creatinine" in near
    assert "urine creatinine" not in near
