"""Which patient of a record is asked about, by FHIR id, identifier (MRN) or name.

    find_patient(record, "Lopez, Maria").id

Exactly one patient must fit: several, or none, are an error. Nothing is guessed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from itertools import islice
from typing import Any, NamedTuple

from archqa.errors import CallerError
from archqa.fhir import FhirError, Record, Resource
from archqa.fhir.values.element_types import is_well_formed
from archqa.fhir.values.text import normalise_text
from archqa.terminology.words import word_list

_MAX_SHOWN = 10
"""Patients that an error names."""


class PatientMatch(NamedTuple):
    """The patient who was found; `birth_date` as in the record, or empty."""

    id: str
    name: str
    birth_date: str
    resource: Mapping[str, Any]

    @property
    def as_json(self) -> dict[str, str]:
        """The `id` and the `name`, as an answer has them."""
        return {"id": self.id, "name": self.name}

    @property
    def line(self) -> str:
        """The patient in one line, to choose from several."""
        born = f"born {self.birth_date}" if self.birth_date else "birth date unknown"
        return f"{self.id}  {self.name or 'no name'}, {born}"


class PatientNotFound(CallerError):
    """The record has no patient of this id, identifier or name."""

    def __init__(self) -> None:
        super().__init__(
            "The record has no patient of this id, identifier or name.\n"
            "Tried: the FHIR id, every identifier (MRN), and every name by whole words, written "
            '"Given Family" or "Family, Given".\n`archqa fhir search Patient` lists the patients.'
        )


class TooManyPatients(CallerError):
    """So many patients have names that begin like this that not all of them were read."""

    def __init__(self, count: int) -> None:
        super().__init__(
            f"More than {count} patients of the record have such a name.\n"
            "Name one by FHIR id or identifier."
        )


class SeveralPatients(CallerError):
    """Several patients have this name or identifier.

    `candidates` are up to ten of them and `details` names these, for where answers are shown.
    `count` is how many there are, or at least are if `is_cut`.
    """

    def __init__(
        self, matches: Sequence[PatientMatch], what: str, *, is_cut: bool = False
    ) -> None:
        ordered = sorted(
            matches, key=lambda match: (match.name, match.birth_date, match.id)
        )
        self.candidates = tuple(ordered[:_MAX_SHOWN])
        self.count = len(matches)
        self.is_cut = is_cut
        at_least = "At least " if is_cut else ""
        self._headline = (
            f"{at_least}{self.count} patients of the record have this {what}"
        )
        super().__init__(
            f"{self._headline}.\nName one by FHIR id, or by an identifier of its own."
        )

    @property
    def details(self) -> str:
        """The patients by id, name and birth date, one a line, and how many more there are."""
        lines = [f"{self._headline}:", *(match.line for match in self.candidates)]
        others = self.count - len(self.candidates)
        if others:
            lines.append(f"and {'at least ' if self.is_cut else ''}{others} more")
        return "\n".join(lines)

    @property
    def as_json(self) -> dict[str, Any]:
        """The patients as `archqa ask --json` prints them."""
        candidates = []
        for match in self.candidates:
            candidates.append({**match.as_json, "birth_date": match.birth_date})
        return {"candidates": candidates, "count": self.count}


_APOSTROPHES = re.compile("['’ʼ`]")
_BETWEEN_WORDS = re.compile("[\\s.,\\-\u2010-\u2015]+")
_BETWEEN_PIECES = re.compile("[\\s.,\\-\u2010-\u2015'’ʼ`]+")

_SERIAL_NUMBER = re.compile(r"(?<=[^\W\d_])\d+$")
"""The digits after the names of synthetic patients ("Maria123"): github.com/synthetichealth."""

_GENDER_OF_TITLE = dict(pair.split("=") for pair in word_list("title=gender"))
"""Titles before a name, and the gender that they tell; no part of the name."""

Words = tuple[str, ...]


class AskedName(NamedTuple):
    """A name as it was typed: all its words, and how "Family, Given" divides them.

    `family` and `given` are empty if no comma divides them. `gender` is what a title tells.
    To search for the patient there is the beginning of each word, and the longest piece of it that
    is written in one way.
    """

    words: Words
    family: Words
    given: Words
    gender: str
    beginnings: Words
    pieces: Words


def read_name(text: str) -> AskedName | None:
    """Return the words of a typed name, in the order "Given Family"; None if there are none."""
    before, comma, after = text.partition(",")
    family, gender = _tokens(before)
    given, given_gender = _tokens(after.replace(",", " "))
    tokens = [*given, *family]
    if not tokens:
        return None
    beginnings = []
    pieces = []
    for token in tokens:
        # A token of marks alone is its own piece.
        beginnings.append(next(filter(None, _BETWEEN_WORDS.split(token)), token))
        pieces.append(max(_BETWEEN_PIECES.split(token), key=len) or token)
    return AskedName(
        words=_words(*tokens),
        family=_words(*family) if comma else (),
        given=_words(*given) if comma else (),
        gender=gender or given_gender,
        beginnings=tuple(beginnings),
        pieces=tuple(pieces),
    )


def _tokens(text: str) -> tuple[list[str], str]:
    """The tokens of a part of a name, and the gender that its title tells; a title alone is a name."""
    tokens = [token for token in text.split() if _words(token)]
    title = _words(tokens[0]) if len(tokens) > 1 else ()
    if len(title) == 1 and title[0] in _GENDER_OF_TITLE:
        return tokens[1:], _GENDER_OF_TITLE[title[0]]
    return tokens, ""


def has_name(patient: Mapping[str, Any], asked: AskedName) -> bool:
    """Whether one of the names of a Patient resource is the name that was typed."""
    gender = patient.get("gender")
    if asked.gender and gender in ("male", "female") and gender != asked.gender:
        return False
    return any(_fits(name, asked) for name in _mappings(patient.get("name")))


def _fits(name: Mapping[str, Any], asked: AskedName) -> bool:
    given = _words(*_texts(name.get("given")))
    family = _words(*_texts(name.get("family")))
    suffix = _words(*_texts(name.get("suffix")))
    if not given and not family:
        for text in _texts(name.get("text")):
            written = read_name(text)
            if written is not None and _in_order(asked.words, written.words):
                return True
        return False
    if asked.family or asked.given:
        fits_family = _in_order(asked.family, (*family, *suffix))
        return fits_family and _in_order(asked.given, (*given, *suffix))
    return _in_order(asked.words, (*given, *family, *suffix))


def _texts(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [text for text in values if isinstance(text, str)]


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    values = value if isinstance(value, list) else []
    return [element for element in values if isinstance(element, Mapping)]


def _words(*texts: str) -> Words:
    words: list[str] = []
    for text in texts:
        plain = _APOSTROPHES.sub("", normalise_text(text))
        words += filter(None, _BETWEEN_WORDS.split(plain))
    return tuple(words)


def _in_order(asked: Sequence[str], words: Sequence[str]) -> bool:
    """Whether all asked words are among the words, in the same order."""
    remaining = iter(words)
    for asked_word in asked:
        for word in remaining:
            if asked_word in (word, _SERIAL_NUMBER.sub("", word)):
                break
        else:
            return False
    return True


_ID = re.compile(r"(?=.*[A-Za-z0-9])[A-Za-z0-9\-._:]{1,128}", re.ASCII)
"""More than FHIR allows (hl7.org/fhir/R4/datatypes.html#id): files are not always valid."""

_CONTAINS = "name:contains"

_MAX_TEXT_LENGTH = 200

_MAX_READ = 500
"""Patients that one search may bring; more cannot be told apart by name."""

_MOST_SHOWN = 5
_FIRST_LETTERS = 2
"""Letters at the beginning of a word that a slip of the pen leaves as they are."""

_NEAR = 0.7
"""The least similarity of every typed word with one of the name (`difflib`, from 0 to 1)."""


def find_patient(record: Record, text: str) -> PatientMatch:
    """Return the patient whose FHIR id (`id`, `Patient/id`), identifier or name is `text`.

    An identifier is a value, or `system|value`; a name is "Given Family" or "Family, Given". An id
    comes before identifiers, these before names. Raises `PatientNotFound`, `SeveralPatients`,
    `TooManyPatients`, and `FhirError` or `ServerUnavailable` for a server that fails.
    """
    asked = " ".join(text.split())
    if not asked.isprintable() or not 0 < len(asked) <= _MAX_TEXT_LENGTH:
        raise PatientNotFound
    patient_id = asked.removeprefix("Patient/")
    if _ID.fullmatch(patient_id):
        try:
            patient = record.get("Patient", patient_id)
        except FhirError as error:
            if error.status != 400:  # A server whose ids look otherwise.
                raise
            patient = None
        if patient is not None:
            return patient_match(patient)
    if patient_id != asked:
        raise PatientNotFound
    return _by_identifier(record, asked) or _by_name(record, asked)


def patient_match(resource: Resource) -> PatientMatch:
    """Return a Patient resource as a match.

    Its name is the official one, else the earliest in the list (hl7.org/fhir/R4, HumanName). Of a
    malformed Patient, only the id is read.
    """
    if not is_well_formed(resource):
        resource = {name: resource.get(name) for name in ("resourceType", "id")}
    human_names = _mappings(resource.get("name"))
    human_names.sort(key=lambda name: name.get("use") != "official")
    name = ""
    for human_name in human_names:
        parts = (*(human_name.get("given") or ()), human_name.get("family") or "")
        text = str(human_name.get("text") or " ".join(map(str, parts)))
        name = name or " ".join(text.split())
    return PatientMatch(
        id=str(resource.get("id", "")),
        name=name,
        birth_date=str(resource.get("birthDate") or ""),
        resource=resource,
    )


def _by_identifier(record: Record, text: str) -> PatientMatch | None:
    """Return the patient of an identifier; None if no patient has it."""
    system, bar, value = text.rpartition("|")
    if not value:
        return None
    token = f"{_escaped(system)}{bar}{_escaped(value)}"
    patients, is_cut = _search(record, [("identifier", token)])
    matches = []
    for patient in patients:
        # A server may ignore the parameter, or compare without regard to case.
        for identifier in _mappings(patient.get("identifier")):
            has_system = not bar or system == (identifier.get("system") or "")
            if has_system and identifier.get("value") == value:
                matches.append(patient_match(patient))
                break
    return _single(matches, "identifier", is_cut=is_cut)


def _by_name(record: Record, text: str) -> PatientMatch:
    name = read_name(text)
    if name is None:
        raise PatientNotFound
    is_cut = False
    for params in _name_searches(name):
        try:
            patients, is_search_cut = _search(record, params)
        except FhirError:
            if params[0][0] == _CONTAINS:  # A server that does not know the modifier.
                continue
            raise
        is_cut |= is_search_cut
        matches = [
            patient_match(patient) for patient in patients if has_name(patient, name)
        ]
        match = _single(matches, "name", is_cut=is_cut)
        if match is not None:
            return match
    if is_cut:
        raise TooManyPatients(_MAX_READ)
    raise PatientNotFound


def _name_searches(name: AskedName) -> Iterator[list[tuple[str, str]]]:
    """Yield searches that bring all patients of this name, the widest first.

    Without the modifier a server may know "Maria Elena" by its beginning alone
    (hl7.org/fhir/R4/search.html#string).
    """
    yield [(_CONTAINS, _escaped(piece)) for piece in name.pieces]
    beginnings = sorted(map(_escaped, name.beginnings), key=len, reverse=True)
    yield [("name", beginning) for beginning in beginnings]
    if len(beginnings) > 1:
        for beginning in beginnings:
            yield [("name", beginning)]


def _search(
    record: Record, params: list[tuple[str, str]]
) -> tuple[list[Resource], bool]:
    """The patients that a search brings, and whether there are more."""
    pairs = [*params, ("_count", "100")]
    patients = list(islice(record.search_all("Patient", pairs), _MAX_READ + 1))
    return patients[:_MAX_READ], len(patients) > _MAX_READ


def _single(
    matches: list[PatientMatch], what: str, *, is_cut: bool
) -> PatientMatch | None:
    """Return the only match, None if there is none. Raises `SeveralPatients`.

    Where a search is cut, the patients that were not read may fit as well.
    """
    if len(matches) > 1:
        raise SeveralPatients(matches, what, is_cut=is_cut)
    return matches[0] if matches and not is_cut else None


def _escaped(text: str) -> str:
    """Return a text as a search value (hl7.org/fhir/R4/search.html#escaping)."""
    return re.sub(r"([\\,|$])", r"\\\1", text)


def near_patients(record: Record, text: str) -> tuple[PatientMatch, ...]:
    """Return the patients with names written almost as what was typed, the most similar first.

    They are five at most, to choose from, never to be assumed. A server that knows no search by
    name has none.
    """
    name = read_name(text)
    if name is None:
        return ()
    matches: dict[str, PatientMatch] = {}
    for beginning in name.beginnings:
        params = [("name", beginning[:_FIRST_LETTERS]), ("_count", "100")]
        with suppress(FhirError):
            for patient in islice(record.search_all("Patient", params), _MAX_READ):
                match = patient_match(patient)
                matches.setdefault(match.id, match)
    near = []
    for match in matches.values():
        likeness = _likeness(name.words, normalise_text(match.name).split())
        if likeness >= _NEAR:
            near.append((-likeness, match.name, match.id, match))
    return tuple(
        match for *_, match in sorted(near, key=lambda entry: entry[:3])[:_MOST_SHOWN]
    )


def _likeness(words: Sequence[str], name_words: Sequence[str]) -> float:
    """The similarity of the typed word that is least like any word of the name."""
    least = 1.0
    for word in words:
        best = 0.0
        for name_word in name_words:
            matcher = SequenceMatcher(None, word, name_word, autojunk=False)
            best = max(best, matcher.ratio())
        least = min(least, best)
    return least
