"""Whatever a case holds survives both notations; whatever happens to a file, only `InputError` comes out."""

import contextlib
import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from archqa.core.case import Case, Phrase, Sentence
from archqa.errors import InputError
from archqa.tasks import dump_json, find, load_key

DATA = Path(__file__).resolve().parents[3] / "data"
ARCHEHR = find("archehr-2025")

# What XML can hold at all: no control characters, and no carriage return, which its parsers turn into a line feed.
characters = st.characters(
    exclude_categories=("Cs", "Cc", "Cn"), include_characters="\n\t"
)
text_lines = st.text(characters, max_size=40).map(str.strip)
sentences_text = text_lines.filter(bool)
ids = st.text(
    st.characters(categories=("L", "N", "P", "S"), exclude_characters=",|"),
    min_size=1,
    max_size=6,
)
positions = st.none() | st.integers(0, 10**9 - 1)


def unique(
    rows: st.SearchStrategy[Any], most: int
) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(rows, max_size=most, unique_by=lambda row: row.id).map(tuple)


phrases = unique(
    st.builds(Phrase, id=ids, text=sentences_text, start_char_index=positions), 3
)
sentences = unique(
    st.builds(
        Sentence,
        id=ids,
        text=sentences_text,
        paragraph_id=st.just("") | ids,
        start_char_index=positions,
    ),
    6,
)
case = st.builds(
    Case,
    id=ids,
    patient_narrative=text_lines,
    patient_question=phrases,
    clinician_question=text_lines,
    note_excerpt=text_lines,
    sentences=sentences,
    clinical_specialty=text_lines,
    title=text_lines,
    answer_sentences=phrases,
)
case_files = st.lists(
    case, min_size=1, max_size=4, unique_by=lambda generated_case: generated_case.id
).map(tuple)


def as_xml(cases: tuple[Case, ...]) -> bytes:
    root = etree.Element("annotations")
    for generated_case in cases:
        element = etree.SubElement(root, "case", id=generated_case.id)
        for name in (
            "patient_narrative",
            "clinician_question",
            "note_excerpt",
            "clinical_specialty",
            "title",
        ):
            etree.SubElement(
                element, name
            ).text = f"\n{getattr(generated_case, name)}\n    "
        add_rows(element, "patient_question", "phrase", generated_case.patient_question)
        add_rows(
            element, "note_excerpt_sentences", "sentence", generated_case.sentences
        )
        add_rows(
            element, "answer_sentences", "sentence", generated_case.answer_sentences
        )
    return etree.tostring(root, xml_declaration=True, encoding="UTF-8")


def add_rows(
    case_element: Any, container: str, tag: str, rows: tuple[Sentence | Phrase, ...]
) -> None:
    holder = etree.SubElement(case_element, container)
    for row in rows:
        fields = row.model_dump(exclude={"text"}, exclude_none=True)
        element = etree.SubElement(
            holder, tag, {name: str(value) for name, value in fields.items()}
        )
        element.text = f"\n{row.text}\n"


@given(case_files)
def test_cases_survive_our_json(cases: tuple[Case, ...]) -> None:
    assert ARCHEHR.load(dump_json(cases).encode()) == cases


@given(case_files)
def test_cases_survive_xml(cases: tuple[Case, ...]) -> None:
    assert ARCHEHR.load(as_xml(cases)) == cases


def test_the_dev_cases_survive_our_json_and_xml() -> None:
    cases = ARCHEHR.load(DATA / "dev.json")

    assert (
        ARCHEHR.load(dump_json(cases).encode()) == ARCHEHR.load(as_xml(cases)) == cases
    )
    assert json.loads(dump_json(cases)) == json.loads((DATA / "dev.json").read_bytes())


VALID = [
    (DATA / "mini" / "mini.json").read_bytes(),
    as_xml(ARCHEHR.load(DATA / "mini" / "mini.json")),
    (DATA / "mini" / "mini_key.json").read_bytes(),
]


def loads_or_complains(data: bytes) -> None:
    for load in (ARCHEHR.load, load_key):
        with contextlib.suppress(InputError):
            load(data)


@settings(max_examples=300)
@given(st.sampled_from(VALID), st.data())
def test_bytes_lost_doubled_or_replaced_raise_nothing_but_input_errors(
    valid: bytes, data: st.DataObject
) -> None:
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(valid)))
        end = data.draw(st.integers(start, min(len(valid), start + 200)))
        middle = data.draw(
            st.binary(max_size=8)
            | st.sampled_from(
                [b"<", b"&x;", b'"', b"[", b"}", b"NaN", valid[start:end] * 2]
            )
        )
        valid = valid[:start] + middle + valid[end:]
    loads_or_complains(valid)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.just("\ud800"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=12), inner, max_size=3)
    ),
    max_leaves=5,
)


def places(value: Any) -> list[tuple[Any, Any]]:
    keys = (
        range(len(value))
        if isinstance(value, list)
        else value
        if isinstance(value, dict)
        else ()
    )
    return [(value, key) for key in keys] + [
        deeper for key in keys for deeper in places(value[key])
    ]


@settings(max_examples=300)
@given(st.sampled_from([VALID[0], VALID[2]]), st.data())
def test_fields_of_the_wrong_kind_raise_nothing_but_input_errors(
    valid: bytes, data: st.DataObject
) -> None:
    tree = copy.deepcopy(json.loads(valid))
    for _ in range(data.draw(st.integers(1, 3))):
        holder, key = data.draw(st.sampled_from(places(tree) or [([None], 0)]))
        holder[key] = data.draw(values)
    loads_or_complains(json.dumps(tree).encode())


@pytest.mark.parametrize("valid", VALID)
def test_a_file_cut_short_anywhere_raises_nothing_but_input_errors(
    valid: bytes,
) -> None:
    for end in range(0, len(valid), 97):
        loads_or_complains(valid[:end])
