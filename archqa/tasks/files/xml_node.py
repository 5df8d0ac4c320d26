"""XML files: parsed with entities, DTDs and the network off; every field found again by its line."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from lxml import etree

from archqa.errors import InputError
from archqa.tasks.files.mistakes import FileErrors, likely_typos, printable

_SYNTAX = (
    "Mend the XML there (in text, & is written &amp; and < is written &lt;); "
    "data/README.md shows the format."
)
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
        tags: set[str] = set()
        for case in self.root:
            tags.update(str(child.tag) for child in case)
        return frozenset(tags)

    def entries(self, mistakes: FileErrors) -> "list[XmlNode]":
        """One node for each `<case>`; a mistake when there is none, or a tag that nearly is one."""
        cases = self.root.findall("case")
        for element in self.root:
            if likely_typos([str(element.tag)], ["case"]):
                problem = (
                    f"{_shown_tag(element)} is no tag of ours; did you mean <case>?"
                )
                mistakes.add(f":{element.sourceline}", problem)
        if not cases:
            problem = f"{_shown_tag(self.root)} holds no <case>."
            mistakes.add(f":{self.root.sourceline}", problem)
        nodes = []
        for number, case in enumerate(cases, start=1):
            nodes.append(XmlNode(case, _owner(case, number), mistakes))
        return nodes


class XmlNode:
    """One element; `owner` names the case that it belongs to.

    Lines beyond 65,535 may be off by a few: libxml2 stores 16 bits for an element and looks at its
    neighbours then.
    """

    def __init__(
        self, element: etree._Element, owner: str, mistakes: FileErrors
    ) -> None:
        self._element = element
        self._owner = owner
        self._mistakes = mistakes

    def text(self, name: str) -> str:
        """See `Node.text`: an attribute, the element's own text (`text`) or that of a child."""
        if name in _ATTRIBUTES:
            return self._element.get(_ATTRIBUTES[name], "").strip()
        holder = self._element if name == "text" else self._child(name)
        if holder is None:
            return ""
        for child in holder:
            tag = _shown_tag(child)
            problem = (
                f"{tag} stands inside <{holder.tag}>, which should hold text only."
            )
            self._note(child, problem)
        return (holder.text or "").strip()

    def required(self, name: str) -> str:
        """See `Node.required`."""
        text = self.text(name)
        tag = self._element.tag
        if not text and name == "text":
            self._note(
                self._element, f"<{tag}> is empty; write its text, or take it out."
            )
        elif not text:
            absent = _ATTRIBUTES.get(name, name)
            self._note(self._element, f"<{tag}> has no {absent}; give it one.")
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
        for child in holder:
            if child.tag != tag:
                stranger = _shown_tag(child)
                problem = f"{stranger} stands inside <{holder.tag}>, which holds <{tag}> only."
                self._note(child, problem)
        self._refuse_loose_text(holder, f"<{tag}>")
        return [
            XmlNode(row, self._owner, self._mistakes) for row in holder.findall(tag)
        ]

    def expect(self, names: Iterable[str]) -> None:
        """See `Node.expect`."""
        tags = [str(child.tag) for child in self._element]
        attributes = list(map(str, self._element.attrib))
        expected: set[str] = set()
        for field in names:
            container, _ = _LISTS.get(field, ("", ""))
            expected.add(container or _ATTRIBUTES.get(field, field))
        own_tag = f"<{self._element.tag}>"
        for name, meant in likely_typos([*tags, *attributes], expected):
            problem = f"{own_tag} holds {printable(name)}; did you mean {meant}?"
            self._note(self._element, problem)
        if tags:
            self._refuse_loose_text(self._element, "fields")
        for tag, count in Counter(tags).items():
            if count > 1 and tag in expected:
                self._note(
                    self._element, f"{own_tag} holds <{tag}> {count} times; keep one."
                )

    def add_error(self, name: str, problem: str) -> None:
        """See `Node.add_error`."""
        if name in _LISTS:
            name, _ = _LISTS[name]
        child = self._child(name)
        if child is not None:
            self._note(child, f"<{name}> {problem}")
            return
        subject = f"<{self._element.tag}>"
        if name in _ATTRIBUTES:
            subject = f"{subject} {_ATTRIBUTES[name]}"
        self._note(self._element, f"{subject} {problem}")

    def _child(self, tag: str) -> etree._Element | None:
        return self._element.find(tag)

    def _refuse_loose_text(self, holder: etree._Element, home: str) -> None:
        loose = [holder.text, *(child.tail for child in holder)]
        if any(text and text.strip() for text in loose):
            self._note(
                holder, f"<{holder.tag}> holds text outside its {home}; move it there."
            )

    def _note(self, element: etree._Element, problem: str) -> None:
        self._mistakes.add(f":{element.sourceline}", f"{self._owner}: {problem}")


def _shown_tag(element: etree._Element) -> str:
    return f"<{printable(str(element.tag))}>"


def parse_xml(text: str, path: str) -> XmlContent:
    """Parse an XML file.

    Raises `InputError` with the line where its syntax breaks, and for any DOCTYPE or encoding but UTF-8.
    """
    _refuse_doctype(text, path)
    declaration = _ENCODING.match(text)
    if declaration and declaration[1].lower() not in {
        "utf-8",
        "utf8",
        "us-ascii",
        "ascii",
    }:
        problem = f":1: declares the encoding {printable(declaration[1])}."
        raise InputError(path, [problem], "Save it as UTF-8 and declare that.")
    # Comments inside a sentence would cut its text in two.
    parser = etree.XMLParser(
        encoding="utf-8",
        resolve_entities=False,
        no_network=True,
        huge_tree=False,
        load_dtd=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        return XmlContent(etree.fromstring(text.encode(), parser))
    except etree.XMLSyntaxError as error:
        reason = _POSITION.sub("", str(error.msg))
        raise InputError(
            path, [f":{error.lineno}: not XML: {reason}."], _SYNTAX
        ) from None


def _refuse_doctype(text: str, path: str) -> None:
    """Refuse a DOCTYPE, which can define entities that grow a thousandfold; no release has one."""
    position = 0
    while piece := _PROLOG_PIECE.match(text, position):
        position = piece.end()
    doctype = _DOCTYPE.match(text, position)
    if doctype:
        line = text.count("\n", 0, doctype.end()) + 1
        problem = f":{line}: a DOCTYPE, which could define entities."
        raise InputError(path, [problem], "Take the DOCTYPE out.")


def _owner(case: etree._Element, number: int) -> str:
    case_id = case.get("id")
    return f"case {printable(case_id)}" if case_id else f"entry {number}"
