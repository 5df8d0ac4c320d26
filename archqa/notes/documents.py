"""The notes of a patient's record: text of DocumentReference, DiagnosticReport and Composition.

Sources: hl7.org/fhir/R4/documentreference.html, diagnosticreport.html, composition.html. An
attachment has base64 `data` or refers to a Binary of the same record; a Composition has narratives.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, TypeVar

from archqa.core.case import Sentence
from archqa.errors import CallerError, InputError, MissingExtra
from archqa.fhir import Record, Resource
from archqa.fhir.values.element_types import is_well_formed
from archqa.notes import DOCUMENT_TYPES
from archqa.notes.formats import NotReadable, codec_of
from archqa.notes.note_files import READ_MEDIA_TYPES, note_text
from archqa.notes.sentences import split_note

EXCLUDED_STATUSES = frozenset(("superseded", "cancelled"))
ENTERED_IN_ERROR = "entered in error"
REPLACED = "replaced by a newer document"
PLAIN_TEXT = "text/plain"
OTHER_SERVER = "kept on another server"
NO_TEXT = "damaged or empty"
MALFORMED = "malformed"
_BINARY = re.compile(
    r"(?:^|/)Binary/([A-Za-z0-9._-]{1,64})(?:/_history/[^/?]+)?(?:\?.*)?$"
)

GetBinary = Callable[[str], Mapping[str, Any] | None]
"""Returns the Binary of an id, or None."""


class Document(NamedTuple):
    """A note.

    `name` is `Type/id`; `date` as in the record, `title` and `kind` what it is called and what
    type of note it is; `author` and `encounter` (`Encounter/id`) are empty where not stated.
    `replaces` are the names of the documents that it replaces, with a space between two.
    """

    name: str
    date: str
    title: str
    text: str
    kind: str = ""
    author: str = ""
    encounter: str = ""
    replaces: str = ""

    def sentences(self) -> tuple[Sentence, ...]:
        """Return its sentences, none of a text without a word; ids are `Type/id#1`, `Type/id#2`, …."""
        try:
            return split_note(self.text, prefix=f"{self.name}#")
        except CallerError:
            return ()


class UnreadDocument(NamedTuple):
    """A document that has no text that can be read, or is no longer valid; `reason` says which."""

    name: str
    reason: str


class Documents(NamedTuple):
    """A patient's notes, the latest first, and the documents that cannot be read."""

    readable: tuple[Document, ...]
    unread: tuple[UnreadDocument, ...]


def patient_documents(record: Record, patient: str) -> Documents:
    """Return the notes of a patient (`id` or `Patient/id`). Raises FhirError.

    Superseded documents are excluded; those entered in error or replaced are unread.
    """
    patient_id = patient.removeprefix("Patient/")
    readable: list[Document] = []
    unread: list[UnreadDocument] = []
    for resource_type in DOCUMENT_TYPES:
        for resource in record.search_all(resource_type, {"patient": patient_id}):
            document = read_document(resource, lambda name: record.get("Binary", name))
            if isinstance(document, Document):
                readable.append(document)
            elif document is not None:
                unread.append(document)
    valid, replaced = without_replaced(readable)
    unread += replaced
    valid.sort(key=lambda document: document.date, reverse=True)
    return Documents(tuple(valid), tuple(unread))


class _Replacing(Protocol):
    """A document, with or without its text."""

    @property
    def name(self) -> str:
        """Its type and id."""
        ...

    @property
    def replaces(self) -> str:
        """The names of the documents that it replaces."""
        ...


_AnyDocument = TypeVar("_AnyDocument", bound=_Replacing)


def without_replaced(
    documents: Iterable[_AnyDocument],
) -> tuple[list[_AnyDocument], list["UnreadDocument"]]:
    """Return the documents that no other one replaces, and the replaced ones as unread."""
    documents = list(documents)
    replaced: set[str] = set()
    for document in documents:
        replaced.update(document.replaces.split())
    valid = [document for document in documents if document.name not in replaced]
    unread = []
    for document in documents:
        if document.name in replaced:
            unread.append(UnreadDocument(document.name, REPLACED))
    return valid, unread


def read_document(
    resource: Resource, get_binary: GetBinary
) -> Document | UnreadDocument | None:
    """Return the note in a resource, or why it cannot be read.

    None for one that is excluded, and for a report or a composition that has no text at all.
    """
    name = f"{resource['resourceType']}/{resource['id']}"
    if not is_well_formed(resource):
        return UnreadDocument(name, MALFORMED)
    if resource.get("status") in EXCLUDED_STATUSES:
        return None
    texts: list[str] = []
    reasons: list[str] = []
    for text, reason in _texts(resource, get_binary):
        if text.strip():
            texts.append(text)
        elif reason:
            reasons.append(reason)
    if texts and "entered-in-error" in (
        resource.get("status"),
        resource.get("docStatus"),
    ):
        return UnreadDocument(name, ENTERED_IN_ERROR)
    if texts:
        return _document(resource, name, "\n\n".join(texts))
    if not reasons and resource["resourceType"] != "DocumentReference":
        return None
    return UnreadDocument(name, reasons[0] if reasons else NO_TEXT)


def binary_ids(resource: Mapping[str, Any]) -> Iterator[str]:
    """Yield the ids of the Binary resources that hold a document's text."""
    for attachment in _attachments(resource):
        if match := _BINARY.search(str(attachment.get("url") or "")):
            yield match[1]


def _document(resource: Mapping[str, Any], name: str, text: str) -> Document:
    concept = resource.get("type") or resource.get("code")
    kind = _concept_text(concept)
    displays = {kind: None}
    for coded in (concept, *_as_list(resource.get("category"))):
        for coding in _as_list(_as_mapping(coded).get("coding")):
            displays[str(_as_mapping(coding).get("display") or "")] = None
    authors = []
    for element in ("author", "performer", "resultsInterpreter"):
        for reference in _as_list(resource.get(element)):
            authors.append(str(_as_mapping(reference).get("display") or ""))
    context = _as_mapping(resource.get("context"))
    period = _as_mapping(context.get("period")) or _as_mapping(
        resource.get("effectivePeriod")
    )
    encounters = [resource.get("encounter"), *_as_list(context.get("encounter"))]
    return Document(
        name=name,
        date=_first_text(
            resource.get("effectiveDateTime"),
            resource.get("date"),
            period.get("end"),
            period.get("start"),
            resource.get("issued"),
        ),
        title=_first_text(resource.get("title"), resource.get("description"), kind),
        text=text,
        kind=" ".join(filter(None, displays)),
        author=", ".join(filter(None, authors)),
        encounter=_first_text(
            *(_as_mapping(visit).get("reference") for visit in encounters)
        ),
        replaces=" ".join(_replaced_by(resource)),
    )


def _replaced_by(resource: Mapping[str, Any]) -> Iterator[str]:
    """Yield `Type/id` of the documents that a resource replaces; a document that is appended to stays."""
    for relation in map(_as_mapping, _as_list(resource.get("relatesTo"))):
        # A Composition calls its target `targetReference`.
        target = relation.get("target") or relation.get("targetReference")
        reference = str(_as_mapping(target).get("reference") or "")
        if _relation_code(relation) == "replaces" and reference:
            path = reference.partition("/_history/")[0]
            yield "/".join(path.split("/")[-2:])


def _relation_code(relation: Mapping[str, Any]) -> str:
    """The code of a relation: since FHIR R5 it is a CodeableConcept."""
    code = relation.get("code")
    if isinstance(code, str):
        return code
    codings = map(_as_mapping, _as_list(_as_mapping(code).get("coding")))
    return _first_text(*(coding.get("code") for coding in codings))


def _first_text(*values: Any) -> str:
    """The first value that is there, as text; "" for none."""
    return next((str(value) for value in values if value), "")


def _concept_text(concept: Any) -> str:
    concept = _as_mapping(concept)
    codings = map(_as_mapping, _as_list(concept.get("coding")))
    return _first_text(
        concept.get("text"), *(coding.get("display") for coding in codings)
    )


def _texts(
    resource: Mapping[str, Any], get_binary: GetBinary
) -> Iterator[tuple[str, str]]:
    """Yield the texts of a resource in order; an empty one with the reason."""
    for attachment in _attachments(resource):
        yield _attachment_text(attachment, get_binary)
    for section in _as_list(resource.get("section")):
        yield "\n\n".join(_section_texts(_as_mapping(section))), ""


def _attachments(resource: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for content in _as_list(resource.get("content")):
        yield _as_mapping(_as_mapping(content).get("attachment"))
    for attachment in _as_list(resource.get("presentedForm")):
        yield _as_mapping(attachment)


def _section_texts(section: Mapping[str, Any]) -> Iterator[str]:
    """Yield the title and the narrative of a section, then those of its sections."""
    narrative = str(_as_mapping(section.get("text")).get("div") or "")
    text = ""
    if narrative:
        with suppress(InputError):
            text = note_text(narrative.encode("utf-8", "replace"), "text/html", "utf-8")
    if text.strip():
        title = section.get("title") or _concept_text(section.get("code"))
        yield f"# {title}\n{text}" if title else text
    for part in _as_list(section.get("section")):
        yield from _section_texts(_as_mapping(part))


def _attachment_text(
    attachment: Mapping[str, Any], get_binary: GetBinary
) -> tuple[str, str]:
    """Return the text of an attachment, or an empty text and the reason.

    Bytes of plain text outside its charset become `�`.
    """
    content_type = str(attachment.get("contentType") or "")
    data = attachment.get("data")
    url = str(attachment.get("url") or "")
    if not data and url:
        match = _BINARY.search(url)
        if not match:
            return "", OTHER_SERVER
        binary = get_binary(match[1]) or {}
        data = binary.get("data")
        content_type = content_type or str(binary.get("contentType") or "")
    media_type, _, parameters = content_type.partition(";")
    media_type = media_type.strip().lower()
    if media_type != PLAIN_TEXT and media_type not in READ_MEDIA_TYPES:
        return "", media_type or "of unknown type"
    parameter, _, charset = parameters.partition("=")
    charset = (
        charset.strip().strip('" ') if parameter.strip().lower() == "charset" else ""
    )
    try:
        content = base64.b64decode("".join(str(data or "").split()), validate=True)
    except (binascii.Error, ValueError):
        content = b""
    try:
        if media_type == PLAIN_TEXT:
            codec = codec_of(charset or "utf-8")
            return content.decode(codec, errors="replace"), NO_TEXT
        return note_text(content, media_type, charset), NO_TEXT
    except MissingExtra:
        return "", "PDF: install the extra archqa[pdf]"
    except (InputError, NotReadable):
        return "", NO_TEXT


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _as_list(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
