"""The case files in data/: whole, equal in both notations, and in agreement with their keys."""

import re
from collections import Counter
from pathlib import Path

import pytest

from archqa.core.case import Case
from archqa.tasks import check_key_matches, find_key, load_cases, load_key

DATA = Path(__file__).resolve().parents[3] / "data"
# Counts of /work/shared/cases/README.md: cases, then essential, supplementary, not-relevant sentences.
COUNTS = {
    "dev": (28, 175, 91, 389),
    "train": (28, 186, 98, 387),
    "train-real": (48, 230, 183, 766),
}


def without_what_xml_of_2025_lacks(cases: tuple[Case, ...]) -> list[Case]:
    return [
        case.model_copy(update={"title": "", "clinical_specialty": ""})
        for case in cases
    ]


@pytest.mark.parametrize("name", COUNTS)
def test_xml_and_json_hold_equal_cases(name: str) -> None:
    from_json = load_cases(DATA / f"{name}.json")
    from_xml = load_cases(DATA / f"{name}.xml")

    assert (from_json.format, from_xml.format) == ("json", "xml")
    assert without_what_xml_of_2025_lacks(from_json.cases) == list(from_xml.cases)


@pytest.mark.parametrize("name", COUNTS)
def test_every_case_file_agrees_with_the_key_beside_it(name: str) -> None:
    cases = load_cases(DATA / f"{name}.json").cases
    key = find_key(DATA / f"{name}.json")

    assert key == find_key(DATA / f"{name}.xml") == DATA / f"{name}_key.json"
    assert check_key_matches(cases, load_key(key).keys) == []


@pytest.mark.parametrize("name", COUNTS)
def test_the_counts_are_those_of_the_readme(name: str) -> None:
    keys = load_key(DATA / f"{name}_key.json").keys.values()
    labels = Counter(label for key in keys for label in key.labels.values())

    assert (
        len(keys),
        labels["essential"],
        labels["supplementary"],
        labels["not-relevant"],
    ) == COUNTS[name]


def test_the_second_key_labels_every_sentence_of_dev() -> None:
    assert (
        check_key_matches(
            load_cases(DATA / "dev.json").cases,
            load_key(DATA / "dev_second_key.json").keys,
        )
        == []
    )


def test_reference_answers_keep_to_75_words() -> None:
    for name in COUNTS:
        for key in load_key(DATA / f"{name}_key.json").keys.values():
            lines = [
                line.rsplit("|", maxsplit=2)[0]
                for line in key.clinician_answer.splitlines()
            ]
            assert 0 < len(" ".join(lines).split()) <= 75, (name, key.case_id)


def test_mini_is_three_cases_of_dev_from_three_specialties() -> None:
    mini = load_cases("mini")
    dev = {case.id: case for case in load_cases(DATA / "dev.json").cases}

    assert len(mini.cases) == len({case.clinical_specialty for case in mini.cases}) == 3
    assert all(case == dev[case.id] for case in mini.cases)


def test_mini_finds_its_key_by_its_name() -> None:
    key = find_key("mini")

    assert key is not None
    assert check_key_matches(load_cases("mini").cases, load_key(key).keys) == []


def test_the_formats_in_the_readme_are_what_the_loader_reads(tmp_path: Path) -> None:
    blocks = re.findall(
        r"```(xml|json)\n(.*?)```",
        (DATA / "README.md").read_text(encoding="utf-8"),
        re.DOTALL,
    )
    paths = [tmp_path / f"{index}.{kind}" for index, (kind, _) in enumerate(blocks)]
    for path, (_, text) in zip(paths, blocks, strict=True):
        path.write_text(text, encoding="utf-8")
    xml, json, key = paths

    assert without_what_xml_of_2025_lacks(load_cases(json).cases) == list(
        load_cases(xml).cases
    )
    assert check_key_matches(load_cases(json).cases, load_key(key).keys) == []
    assert load_key(key).keys["5"].clinician_answer_sentences[0].citations == ("2",)


def test_credits_name_every_case_of_train_real() -> None:
    credits_ = (DATA / "CREDITS.md").read_text(encoding="utf-8")

    for case in load_cases(DATA / "train-real.json").cases:
        assert f"| {case.id} | {case.title} |" in credits_
