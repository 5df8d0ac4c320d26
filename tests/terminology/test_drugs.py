"""Ingredients in the displays of medicines."""

import pytest

from archqa.terminology.drugs import ingredients_of


@pytest.mark.parametrize(
    ("display", "ingredients"),
    [
        (
            "24 HR metformin hydrochloride 500 MG Extended Release Oral Tablet",
            ("metformin",),
        ),
        (
            "Acetaminophen 325 MG / Hydrocodone Bitartrate 7.5 MG Oral Tablet",
            ("acetaminophen", "hydrocodone"),
        ),
        (
            "24 HR carvedilol phosphate 20 MG Extended Release Oral Capsule [Coreg]",
            ("carvedilol",),
        ),
        (
            "NDA020503 200 ACTUAT albuterol 0.09 MG/ACTUAT Metered Dose Inhaler [Proventil]",
            ("albuterol",),
        ),
        (
            "insulin, regular, human 100 UNT/ML Injectable Solution",
            ("insulin regular",),
        ),
        (
            "insulin isophane, human 70 UNT/ML / insulin, regular, human 30 UNT/ML "
            "Injectable Suspension [Humulin]",
            ("insulin isophane", "insulin regular"),
        ),
        (
            "hydrochlorothiazide 12.5 MG / losartan potassium 50 MG Oral Tablet [Hyzaar]",
            ("hydrochlorothiazide", "losartan"),
        ),
        ("Yaz 28 Day Pack", ("drospirenone", "ethinyl estradiol")),
        ("Cipro 250", ("ciprofloxacin",)),
        ("Verzenio 100 MG Oral Tablet", ("abemaciclib",)),
        ("Sulfameth/Trimethoprim DS", ("sulfamethoxazole", "trimethoprim")),
        ("Piperacillin-Tazobactam", ("piperacillin", "tazobactam")),
        ("MetFORMIN (Glucophage)", ("metformin",)),
        ("Oxycodone-Acetaminophen (5mg-325mg)", ("oxycodone", "acetaminophen")),
        ("Tylenol with Codeine", ("acetaminophen", "codeine")),
        ("Potassium Chloride Replacement (Oncology)", ("potassium chloride",)),
        ("[Lasix]", ("furosemide",)),
    ],
)
def test_a_display_has_its_ingredients(
    display: str, ingredients: tuple[str, ...]
) -> None:
    assert ingredients_of(display) == ingredients


@pytest.mark.parametrize(
    ("display", "ingredients"),
    [
        ("Lenzilumab 200 MG IV", ("lenzilumab",)),
        ("10 ML zzzumab hydrochloride 50 MG/ML Injection", ("zzzumab",)),
        (
            "zzzumab 5 MG / metformin hydrochloride 500 MG Oral Tablet",
            ("zzzumab", "metformin"),
        ),
    ],
)
def test_an_unknown_name_before_a_strength_is_an_ingredient(
    display: str, ingredients: tuple[str, ...]
) -> None:
    assert ingredients_of(display) == ingredients


@pytest.mark.parametrize(
    "display",
    ["", "Sarna Lotion", "Influenza Vaccine", "Are you a refugee?", "28 Day Pack"],
)
def test_what_names_no_ingredient_has_none(display: str) -> None:
    assert ingredients_of(display) == ()


def test_a_salt_is_no_ingredient() -> None:
    assert ingredients_of("rosuvastatin calcium 10 MG Oral Tablet") == ("rosuvastatin",)
    assert ingredients_of("Diclofenac Potassium 50 MG Oral Tablet") == ("diclofenac",)
