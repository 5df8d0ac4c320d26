"""An invented patient's vocabulary, with displays that hold deciding words."""

from archqa.query.model import RowKind
from archqa.query.questions.everyday import Name, NameIndex, PatientVocabulary

_OWN: dict[RowKind, tuple[str, ...]] = {
    "observation": (
        "Hemoglobin A1c/Hemoglobin.total in Blood",
        "Systolic Blood Pressure",
        "Oxygen saturation in Arterial blood",
        "Are you worried about losing your housing?",
        "Within the last year, have you been afraid of your partner or ex-partner?",
        "Left ventricular mass index",
    ),
    "diagnosis": (
        "Essential hypertension (disorder)",
        "Severe anxiety (panic) (finding)",
        "Medication review due (situation)",
        "Laceration of left forearm (disorder)",
        "Chronic intractable migraine without aura (disorder)",
        "Not in labor force (finding)",
        "Only child (finding)",
    ),
    "medication": (
        "Methotrexate 2.5 MG Oral Tablet",
        "Methotrexate 25 MG/ML Injectable Solution",
        "latanoprost 0.05 MG/ML Ophthalmic Solution",
        "Zorblatine 5 MG Oral Tablet",
    ),
    "procedure": (
        "Suture of open wound (procedure)",
        "Intubation without sedation (procedure)",
        "Placing subject in prone position (procedure)",
        "Resuscitation using intravenous fluid (procedure)",
        "Discharge from hospital (procedure)",
    ),
    "care_plan": ("Wound care (regime/therapy)",),
    "encounter": ("Prenatal visit (regime/therapy)",),
}
_OTHERS: dict[RowKind, tuple[str, ...]] = {
    "diagnosis": ("Fracture of clavicle (disorder)", "Quaxil fever (disorder)"),
    "procedure": ("Plain radiography of refused limb (procedure)",),
}


def _names(displays: dict[RowKind, tuple[str, ...]], *, is_own: bool) -> list[Name]:
    return [
        Name(kind, text, is_own) for kind, texts in displays.items() for text in texts
    ]


VOCABULARY = PatientVocabulary(
    lambda: ("maria", "von", "von197"),
    lambda: NameIndex(_names(_OWN, is_own=True)),
    lambda: NameIndex([*_names(_OWN, is_own=False), *_names(_OTHERS, is_own=False)]),
)
"""The vocabulary of Maria Von197, who has no recorded allergy."""
