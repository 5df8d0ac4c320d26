"""XML files: parsed with entities, DTDs and the network off; every field found again by its line."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from lxml import etree

from archqa.errors import InputError
from archqa.tasks.files.mistakes import FileErrors, likely_typos, printable

_SYNTAX = "Mend the XML there (in text, & is written &amp; and < is written &lt;); data/README.md shows the format."
_PROLOG_PIECE = re.compile(r"\s*(?:<\?.*?\?>|<!--.*?-->)", re.DOTALL)
_DOCTYPE = re.compile(r"\s*<!DOCTYPE")
_ENCODING = re.compile(r"""\s*<\?xml[^>]*\sencoding\s*=\s*["']([^"']*)["']""")
_POSITION = re.compile(r"(, (use|try) XML_PARSE_HUGE[^,]*)?(, line \d+, column \d+)?$")
_NUMBER = re.compile(r"[0-9]{1,9}")

_ATTRIBUTES = {
    "case_id": "id",
    "id": "id",
    "paragraph_id": "paragraph_id",
    "start_char_index": "start_char_index",
}
_LISTS = {
    "patient_question": ("patient_question", "phrase"),
    # Never `.//sentence`: releases of 2026 hold the answer's sentences in the same case.
    "sentences": ("note_excerpt_sentences", "sentence"),
    "answer_sentences": ("answer_sentences", "sentence"),
}


@dataclass(frozen=True)
class XmlContent:
    """A parsed XML file."""

    root: etree._Element
    format: Literal["xml"] = "xml"

    @property
    def fields(self) -> frozenset[str]:
        """Tags inside its cases."""
        return frozenset(str(child.tag) for case in self.root for child in case)

    def entries(self, mistakes: FileErrors) -> "list[XmlNode]":
        """One node for each `<case>`; a mistake when there is none, or a tag that nearly is one."""
        cases = self.root.findall("case")
        for other in self.root:
            if likely_typos([str(other.tag)], ["case"]):
                mistakes.add(
                    f":{other.sourceline}",
                    f"<{printable(str(other.tag))}> is no tag of ours; did you mean <case>?",
                )
        if not cases:
            mistakes.add(
                f":{self.root.sourceline}", f"<{printable(str(self.root.tag))}> holds no <case>."
            )
        return [XmlNode(case, _owner(case, place), mistakes) for place, case in enumerate(cases, 1)]


class XmlNode:
    """One element; `owner` names the case that it belongs to.

    Lines beyond 65,535 may be off by a few: libxml2 keeps 16 bits for an element and looks at its neighbours then.
    """

    def __init__(self, element: etree._Element, owner: str, mistakes: FileErrors) -> None:
        self._element = element
        self._owner = owner
        self._mistakes = mistakes

    def text(self, name: str) -> str:
        """See `Node.text`: an attribute, the text of the element itself (`text`) or that of a child."""
        if name in _ATTRIBUTES:
            return (self._element.get(_ATTRIBUTES[name]) or "").strip()
        holder = self._element if name == "text" else self._child(name)
        return "" if holder is None else self._plain(holder)

    def required(self, name: str) -> str:
        """See `Node.required`."""
        text = self.text(name)
        if not text:
            self._note(self._element, self._emptiness(name))
        return text

    def number(self, name: str) -> int | None:
        """See `Node.number`."""
        text = self.text(name)
        if _NUMBER.fullmatch(text):
            return int(text)
        if text:
            self.add_error(name, "is no whole number from 0 to 999999999.")
        return None

    def rows(self, name: str) -> "Sequence[XmlNode]":
        """See `Node.rows`: the list's own tags only, wherever else such tags stand."""
        container, tag = _LISTS[name]
        holder = self._child(container)
        if holder is None:
            return []
        self._refuse_strangers(holder, tag)
        self._refuse_loose_text(holder, f"<{tag}>")
        return [XmlNode(row, self._owner, self._mistakes) for row in holder.findall(tag)]

    def expect(self, names: Iterable[str]) -> None:
        """See `Node.expect`."""
        tags = [str(child.tag) for child in self._element]
        known = {
            _LISTS[name][0] if name in _LISTS else _ATTRIBUTES.get(name, name) for name in names
        }
        for name, meant in likely_typos([*tags, *map(str, self._element.attrib)], known):
            self._note(
                self._element,
                f"<{self._element.tag}> holds {printable(name)}; did you mean {meant}?",
            )
        if tags:
            self._refuse_loose_text(self._element, "fields")
        for tag, times in Counter(tags).items():
            if times > 1 and tag in known:
                self._note(
                    self._element, f"<{self._element.tag}> holds <{tag}> {times} times; keep one."
                )

    def add_error(self, name: str, what: str) -> None:
        """See `Node.add_error`."""
        if name in _LISTS:
            name = _LISTS[name][0]
        child = self._child(name)
        subject = (
            f"<{self._element.tag}> {_ATTRIBUTES[name]}"
            if name in _ATTRIBUTES
            else f"<{self._element.tag}>"
        )
        self._note(
            self._element if child is None else child,
            f"{subject if child is None else f'<{name}>'} {what}",
        )

    def _child(self, tag: str) -> etree._Element | None:
        return self._element.find(tag)

    def _plain(self, holder: etree._Element) -> str:
        for child in holder:
            self._note(
                child,
                f"<{printable(str(child.tag))}> stands inside <{holder.tag}>, which should hold text only.",
            )
        return (holder.text or "").strip()

    def _emptiness(self, name: str) -> str:
        if name == "text":
            return f"<{self._element.tag}> is empty; write its text, or take it out."
        return f"<{self._element.tag}> has no {_ATTRIBUTES.get(name, name)}; give it one."

    def _refuse_strangers(self, holder: etree._Element, tag: str) -> None:
        for child in holder:
            if child.tag != tag:
                self._note(
                    child,
                    f"<{printable(str(child.tag))}> stands inside <{holder.tag}>, which holds <{tag}> only.",
                )

    def _refuse_loose_text(self, holder: etree._Element, home: str) -> None:
        loose = [holder.text, *(child.tail for child in holder)]
        if any(text and text.strip() for text in loose):
            self._note(holder, f"<{holder.tag}> holds text outside its {home}; move it there.")

    def _note(self, element: etree._Element, what: str) -> None:
        self._mistakes.add(f":{element.sourceline}", f"{self._owner}: {what}")


def parse_xml(text: str, path: str) -> XmlContent:
    """Parse an XML file. Raises `InputError` with the line where its syntax breaks, and for any DOCTYPE or encoding
    but UTF-8.
    """
    _refuse_doctype(text, path)
    _refuse_encoding(text, path)
    try:
        return XmlContent(etree.fromstring(text.encode(), _parser()))
    except etree.XMLSyntaxError as error:
        reason = _POSITION.sub("", str(error.msg))
        raise InputError(path, [f":{error.lineno}: not XML: {reason}."], _SYNTAX) from None


def _parser() -> etree.XMLParser:
    # Comments inside a sentence would cut its text in two.
    return etree.XMLParser(
        encoding="utf-8",
        resolve_entities=False,
        no_network=True,
        huge_tree=False,
        load_dtd=False,
        remove_comments=True,
        remove_pis=True,
    )


def _refuse_doctype(text: str, path: str) -> None:
    """A DOCTYPE can define entities that grow a thousandfold; no release has one, so none reaches the parser."""
    at = 0
    while piece := _PROLOG_PIECE.match(text, at):
        at = piece.end()
    if found := _DOCTYPE.match(text, at):
        line = text.count("\n", 0, found.end()) + 1
        raise InputError(
            path, [f":{line}: a DOCTYPE, which could define entities."], "Take the DOCTYPE out."
        )


def _refuse_encoding(text: str, path: str) -> None:
    found = _ENCODING.match(text)
    if found and found[1].lower() not in ("utf-8", "utf8", "us-ascii", "ascii"):
        raise InputError(
            path,
            [f":1: declares the encoding {printable(found[1])}."],
            "Save it as UTF-8 and declare that.",
        )


def _owner(case: etree._Element, place: int) -> str:
    case_id = case.get("id")
    return f"case {printable(case_id)}" if case_id else f"entry {place}"
