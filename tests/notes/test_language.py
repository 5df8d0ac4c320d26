"""Whether a note is in English; the samples in other languages were written for this test."""

import pytest

from archqa.notes.language import is_english

OTHER_LANGUAGES = {
    "German": "Herr M. wurde am 3. März mit Dyspnoe aufgenommen. Das EKG war unauffällig, die "
    "Echokardiographie zeigte eine EF von 35 %. Die Entlassung erfolgte in gutem Zustand.",
    "German with Latin terms": "Diagnosen: Diabetes mellitus Typ II, Z.n. Appendicitis acuta, "
    "Fractura colli femoris sinistri. Cor und Pulmo frei, Abdomen weich ohne Druckschmerz, bei "
    "Aufnahme kein Fieber, kardial kompensiert, unter Furosemid nicht dekompensiert.",
    "German shorthand": "Pat. wach. Abdomen weich, kein DS. Beine ohne Ödeme, Puls nicht tastbar. "
    "Labor: Kalium 3,5 mmol/l. Entlassung mit ASS 100 und Ramipril.",
    "French": "Homme de 63 ans avec des antécédents d'hypertension, admis pour une douleur "
    "thoracique. L'électrocardiogramme est normal. Il est sorti avec de l'aspirine, sans fièvre.",
    "Spanish": "Varón de 63 años con antecedentes de hipertensión, ingresado por dolor torácico. La "
    "radiografía no mostró alteraciones. Fue dado de alta con aspirina y sin fiebre.",
    "Italian": "Uomo di 63 anni con ipertensione, ricoverato per dolore toracico. La radiografia "
    "non ha mostrato alterazioni. È stato dimesso con terapia antiaggregante, senza febbre.",
    "Portuguese": "Homem de 63 anos com hipertensão, internado por dor torácica. A radiografia não "
    "mostrou alterações. Recebeu alta com aspirina e sem febre, para seguimento em uma semana.",
    "Turkish": "Hasta göğüs ağrısı ile başvurdu. EKG normal olarak değerlendirildi. Daha sonra "
    "hasta aspirin ile taburcu edildi, ateş yok, ödem saptandı.",
    "Russian": "Пациент 63 лет поступил с болью в груди. ЭКГ без особенностей. Aspirin 100 mg.",
    "Chinese": "患者男性，63岁，因胸痛入院。心电图正常，胸部X线未见异常。给予阿司匹林100 mg治疗。",
}


@pytest.mark.parametrize("language", OTHER_LANGUAGES)
def test_a_note_in_another_language_is_told(language: str) -> None:
    assert is_english(OTHER_LANGUAGES[language]) is False


@pytest.mark.parametrize(
    "note",
    [
        "The patient was admitted with chest pain and discharged on aspirin.",
        "Meds: 1. Prozac 20 mg a day. 2. Lasix 40 mg twice a day. 3. Zocor once a day at night.",
        "Pt c/o SOB, no CP. On exam lungs clear, no edema. Plan: continue Lasix, d/c home today "
        "with VNA, f/u in clinic. Son at bedside, per RN slept well.",
        "MUSCULOSKELETAL: No arthritis or muscle weakness. SKIN: Non-significant. ENDOCRINE: No DM.",
        "Status post appendectomy in 1999 and cholecystectomy with Dr. de la Cruz; α-blocker, 5 µg.",
    ],
)
def test_notes_in_english_are_not_taken_for_another_language(note: str) -> None:
    assert is_english(note) is not False


@pytest.mark.parametrize(
    "note", ["", "Na 140 K 4.0", "Aspirin 81 mg, Lasix 40 mg, K-Dur 20 mEq"]
)
def test_a_note_with_few_words_has_no_language(note: str) -> None:
    assert is_english(note) is None
