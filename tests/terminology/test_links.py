"""The tables know one another: one thing is one concept, wherever it is named."""

import pytest

from archqa.core.tables import read_rows, split_cell
from archqa.terminology.codes import matches_code
from archqa.terminology.concept import Concept
from archqa.terminology.concepts import find_concepts, find_mentions
from archqa.terminology.glossary import load_glossary

KINDS = {
    "lab": "measurement",
    "vital": "measurement",
    "diagnosis": "condition",
    "procedure": "procedure",
    "medication": "drug",
}
"""Kinds of names in records, and the kind of concept that they name."""

OTHER = {
    "Leukocytes",
    "Nucleated Red Cells",
    "Creatinine, Urine",
    "Arterial Blood Pressure systolic",
}
"""Names that stand for a wider thing, or a part of it, than the forms name as a concept."""


def asked(question: str) -> set[Concept]:
    return {match.concept for match in find_concepts(question)}


def stated(sentence: str) -> set[Concept]:
    return {mention.concept for mention in find_mentions(sentence)}


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("high bp?", "She is hypertensive."),
        ("any kidney stones?", "No nephrolithiasis was seen."),
        ("is he on a water pill?", "Diuretics were held."),
        ("does she take Coumadin?", "Warfarin 5 mg daily."),
        ("sleep apnea?", "OSA on CPAP at night."),
        ("is she a smoker?", "Denies tobacco."),
        ("has he had a flu shot?", "Influenza vaccine given."),
        ("on dialysis?", "Hemodialysis three times a week."),
    ],
)
def test_what_a_question_names_is_what_a_sentence_states(
    question: str, sentence: str
) -> None:
    assert asked(question) & stated(sentence)


@pytest.mark.parametrize(
    ("term", "name"),
    [
        ("HTN", "hypertension"),
        ("PE", "pulmonary embolism"),
        ("UTI", "urinary tract infection"),
        ("GERD", "gastroesophageal reflux"),
        ("Lasix", "furosemide"),
    ],
)
def test_the_meaning_of_an_abbreviation_or_brand_names_a_concept(
    term: str, name: str
) -> None:
    assert name in {concept.name for concept in asked(load_glossary()[term].meaning)}


def test_names_in_records_are_displays_of_the_concept_that_clinicians_name() -> None:
    other = []
    for kind, forms, names in read_rows("terminology/data/record_names.tsv", 3):
        if kind in KINDS and OTHER.isdisjoint(split_cell(names)):
            concepts = {each for form in split_cell(forms) for each in asked(form)}
            of_kind = [concept for concept in concepts if concept.kind == KINDS[kind]]
            displays = [(None, None, name) for name in split_cell(names)]
            fits = any(
                matches_code(each, *display) for each in of_kind for display in displays
            )
            if of_kind and not fits:
                other.append((forms, names))
    assert other == []
