"""What a broken case file is answered with: every mistake, its place, and what to do."""

import os
from pathlib import Path

import pytest

from archqa.errors import InputError
from archqa.tasks import load_cases


def complaint(data: str | bytes, folder: Path, task: str | None = None) -> InputError:
    path = folder / "cases"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    with pytest.raises(InputError) as caught:
        load_cases(path, task)
    assert caught.value.exit_code == 3
    assert caught.value.path == str(path)
    assert caught.value.fix
    return caught.value


def test_all_mistakes_of_an_xml_file_come_at_once_with_their_lines(
    tmp_path: Path,
) -> None:
    text = """<annotations>
<case id="5">
<patient_narrative>Why <b>me</b>?</patient_narrative>
<clinician_question>Why?</clinician_question>
<clinician_question>Why?</clinician_question>
<patient_question>loose</patient_question>
<note_excerp>Fever.</note_excerp>
<note_excerpt_sentences>
<sentence>Fever.</sentence>
<sentence id="1">   </sentence>
<sentence id="2" start_char_index="-4">Chills.</sentence>
<sentence id="2">Cough.</sentence>
<sentence id="3,4">Rash.</sentence>
<sentance id="5">Pain.</sentance>
</note_excerpt_sentences>
</case>
<case id="5"/>
<case/>
<Case id="6"/>
</annotations>"""

    assert complaint(text, tmp_path).mistakes == (
        ":2: case 5: <case> holds note_excerp; did you mean note_excerpt?",
        ":2: case 5: <case> holds <clinician_question> 2 times; keep one.",
        ":3: case 5: <b> stands inside <patient_narrative>, which should hold text only.",
        ":6: case 5: <patient_question> holds text outside its <phrase>; move it there.",
        ":9: case 5: <sentence> has no id; give it one.",
        ":10: case 5: <sentence> is empty; write its text, or take it out.",
        ":11: case 5: <sentence> start_char_index is no whole number from 0 to 999999999.",
        ":12: case 5: <sentence> id '2' is taken by an earlier one; give each its own.",
        ":13: case 5: <sentence> id holds a comma, a bar or white space, which no citation can carry; rename it.",
        ":14: case 5: <sentance> stands inside <note_excerpt_sentences>, which holds <sentence> only.",
        ":17: case 5: <case> id '5' is taken by an earlier one; give each its own.",
        ":18: entry 3: <case> has no id; give it one.",
        ":19: <Case> is no tag of ours; did you mean <case>?",
    )


def test_all_mistakes_of_a_json_file_come_at_once_with_their_paths(
    tmp_path: Path,
) -> None:
    text = """[
      {"case_id": "5", "patient_narrativ": "Why?", "title": ["a"], "patient_question": "Why?", "sentences": [
        {"text": "Fever."}, {"id": 1, "text": true}, {"id": "2", "text": ""}, {"id": "2", "text": "\\ud800"}, 7,
        {"id": "3 4", "text": "Rash.", "start_char_index": "8"}, {"id": "6", "text": "a", "start_char_index": 1.5},
        {"id": "7", "text": "a", "start_char_index": -1}, {"id": "8", "id": "9", "text": "a"}]},
      {"case_id": "5"}, {"case_id": null}, "six"]"""
    error = complaint(text, tmp_path)

    assert sorted(error.mistakes) == sorted(
        (
            ": case 5, $.patient_narrativ: is no field of ours; did you mean patient_narrative?",
            ": case 5, $.title: is a list; it should be text in quotes.",
            ": case 5, $.patient_question: is text; it should be a list: [{…}, {…}].",
            ": case 5, $.sentences[0].id: missing; give it one.",
            ": case 5, $.sentences[1].id: is a number; it should be text in quotes.",
            ": case 5, $.sentences[1].text: is true or false; it should be text in quotes.",
            ": case 5, $.sentences[2].text: is empty; give it one, or take the whole object out.",
            ": case 5, $.sentences[3].id: '2' is taken by an earlier one; give each its own.",
            ": case 5, $.sentences[3].text: holds half a character (a lone surrogate); write the whole one.",
            ": case 5, $.sentences[4]: is a number; it should be an object: {…}.",
            ": case 5, $.sentences[5].id: holds a comma, a bar or white space, which no citation can carry; rename it.",
            ": case 5, $.sentences[5].start_char_index: is text; it should be a whole number without quotes.",
            ": case 5, $.sentences[6].start_char_index: is a number; it should be a whole number without quotes."
            " It has a fraction or too many digits.",
            ": case 5, $.sentences[7].start_char_index: is out of range; it should be from 0 to 999999999.",
            ": case 5, $.sentences[8].id: stands twice in one object; keep one.",
            ": case 5, $.case_id: '5' is taken by an earlier one; give each its own.",
            ": entry 3, $.case_id: missing; give it one.",
            ": entry 4, $: is text; it should be an object: {…}.",
        )
    )
    assert "data/README.md" in error.fix


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b" \n\t", "is empty"),
        (b"\xef\xbb\xbf", "neither XML nor JSON"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "is binary"),
        (b"\x1f\x8b\x08\xff\xfe\xfd", "is not UTF-8"),
        ('[{"case_id": "1"}]'.encode("utf-16"), "UTF-16"),
        (b'[\n{"case_id": "\xe9"}]', ":2: the byte 0xe9"),
        (b"<annotations>\n<case id='1'>\xe9</case></annotations>", ":2: the byte 0xe9"),
        (
            b'<?xml version="1.0" encoding="ISO-8859-1"?><annotations/>',
            "encoding ISO-8859-1",
        ),
        (b"Dear doctor", "neither XML nor JSON"),
        (b"[]", "the list is empty"),
        (b"{}", "should be a list"),
        (b'{"patient_narrative": "Why?"}', "should be a list"),
        (b"<annotations/>", "holds no <case>"),
        (b"<html><body/></html>", "holds no <case>"),
        (b'<annotations>\n<case id="1"><patient_narr', ":2: not XML"),
        (b'<annotations>\n<case id="1">\n', ":3: not XML"),
        (
            b"<annotations>\n<case id='1'><note_excerpt>a & b</note_excerpt></case></annotations>",
            ":2: not XML",
        ),
        (b"<annotations>&unknown;</annotations>", "not XML"),
        (
            b'[\n{"case_id": "1", "sentences": [{"id":',
            ":2: not JSON: the file breaks off",
        ),
        (b'[\n{"case_id": "1', ":2: not JSON: the file breaks off"),
        (b'[\n{"case_id": "1",}]', ":2: not JSON"),
        (b'[{"case_id": "NaN",\n"start_char_index": NaN}]', ":2: not JSON: NaN"),
        (b'[{"case_id": "1", "x": -Infinity}]', ":1: not JSON: -Infinity"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
        (b"<a>" * 100_000, "Excessive depth"),
        (
            b'[{"case_id": "1", "sentences": [{"id": "1", "text": "a", "start_char_index": 1e999}]}]',
            "too many digits",
        ),
        (
            b'[{"case_id": "1", "sentences": [{"id": "1", "text": "a", "start_char_index": %s}]}]'
            % (b"9" * 99_999),
            "too many digits",
        ),
        (b"a,b\n1,2\n", "no benchmark we know"),
    ],
)
def test_a_file_that_is_no_case_file_gets_one_clear_error(
    tmp_path: Path, data: bytes, says: str
) -> None:
    assert says in str(complaint(data, tmp_path))


def test_a_table_given_as_archehr_is_refused(tmp_path: Path) -> None:
    assert "neither XML nor JSON" in str(
        complaint("question,patient_fhir_id\n", tmp_path, task="archehr-2025")
    )


def test_messages_hold_no_text_of_the_record(tmp_path: Path) -> None:
    secret = "Patient Jane Roe has fever"
    text = f'[{{"case_id": "1", "sentences": [{{"id": "1", "text": ["{secret}"]}}, "{secret}"]}}]'

    assert secret not in str(complaint(text, tmp_path))


def test_long_and_unprintable_ids_are_shown_short_and_plain(tmp_path: Path) -> None:
    text = '[{"case_id": "\\u001b[31m%s", "sentences": 1}]' % ("x" * 500)
    message = str(complaint(text, tmp_path))

    assert "\x1b" not in message
    assert len(message) < 400


def test_an_absent_file_names_its_nearest_neighbour(tmp_path: Path) -> None:
    (tmp_path / "dev.json").write_text("[]")
    with pytest.raises(InputError, match=r"no such file.\nDid you mean .*dev\.json"):
        load_cases(tmp_path / "dev.jsn")


@pytest.mark.parametrize("path", ["/nowhere/at/all.json", "a\0b", "x" * 5000])
def test_a_path_that_leads_nowhere_is_an_input_error(path: str) -> None:
    with pytest.raises(InputError):
        load_cases(path)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="this is a folder"):
        load_cases(tmp_path)


@pytest.mark.skipif(
    not Path("/proc/self/mem").exists(),
    reason="needs a file that fails when it is read",
)
def test_a_file_that_fails_while_it_is_read_is_an_input_error() -> None:
    with pytest.raises(InputError, match="cannot be read"):
        load_cases("/proc/self/mem")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission_is_an_input_error(tmp_path: Path) -> None:
    path = tmp_path / "cases.json"
    path.touch(mode=0o000)
    with pytest.raises(InputError, match="may not read"):
        load_cases(path)
