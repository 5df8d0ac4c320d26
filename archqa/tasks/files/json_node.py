"""JSON files: parsed without surprises, every field found again by its path."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from archqa.errors import InputError
from archqa.safety.text import has_surrogates
from archqa.tasks.files.mistakes import FileErrors, is_blank, likely_typos, printable

MAX_NUMBER = 10**9 - 1
"""No note has more characters; anything above is a mistake, not a position."""

_SYNTAX = "Mend the JSON there; data/README.md shows the format."
_DEEP = "No case is nested like this: name a case file."
_STRING_OR_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|NaN|-?Infinity')
_ID_FIELDS = ("case_id", "question_id", "id")
_KINDS = {
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "a list",
    type(None): "null",
}


class _Object(dict[str, Any]):
    """A JSON object that remembers which of its names were repeated."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.repeated_names: list[str] = []
        if len(self) < len(pairs):
            counts = Counter(name for name, _ in pairs)
            self.repeated_names = [name for name, count in counts.items() if count > 1]


@dataclass(frozen=True)
class JsonContent:
    """A parsed JSON file."""

    value: Any
    format: Literal["json"] = "json"

    @property
    def fields(self) -> frozenset[str]:
        """Field names of every entry of the list."""
        names: set[str] = set()
        entries = self.value if isinstance(self.value, list) else [self.value]
        for entry in entries:
            if isinstance(entry, dict):
                names.update(entry)
        return frozenset(names)

    def entries(self, mistakes: FileErrors) -> "list[JsonNode]":
        """One node for each object of the list; a mistake when the file is no list, or an empty one."""
        if not isinstance(self.value, list):
            mistakes.add(
                "",
                f"the file holds {_kind(self.value)}; it should be a list: [{{…}}, {{…}}].",
            )
            return []
        if not self.value:
            mistakes.add("", "the list is empty; it should hold at least one case.")
        nodes = []
        for number, entry in enumerate(self.value, start=1):
            owner = f"entry {number}"
            if not isinstance(entry, dict):
                mistakes.add(f": {owner}, $", _not_an_object(entry))
                continue
            for name in _ID_FIELDS:
                case_id = entry.get(name)
                if isinstance(case_id, str) and not is_blank(case_id):
                    owner = f"case {printable(case_id)}"
                    break
            nodes.append(JsonNode(entry, "$", owner, mistakes))
        return nodes


class JsonNode:
    """One JSON object; `path` leads to it from its case, `owner` names that case."""

    def __init__(
        self, value: dict[str, Any], path: str, owner: str, mistakes: FileErrors
    ) -> None:
        self._value = value
        self._path = path
        self._owner = owner
        self._mistakes = mistakes
        for name in getattr(value, "repeated_names", ()):
            self.add_error(printable(name), "stands twice in one object; keep one.")

    def __contains__(self, name: str) -> bool:
        return name in self._value

    def value(self, name: str) -> Any:
        """The field as JSON has it; None when it is absent."""
        return self._value.get(name)

    def text(self, name: str) -> str:
        """See `Node.text`. null counts as absent."""
        value = self._value.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            self.add_error(name, f"is {_kind(value)}; it should be text in quotes.")
            return ""
        if has_surrogates(value):
            self.add_error(
                name, "holds half a character (a lone surrogate); write the whole one."
            )
            return ""
        return value.strip()

    def required(self, name: str) -> str:
        """See `Node.required`."""
        text = self.text(name)
        if self._value.get(name) is None:
            self.add_error(name, "missing; give it one.")
        elif isinstance(self._value[name], str) and not self._value[name].strip():
            self.add_error(name, "is empty; give it one, or take the whole object out.")
        return text

    def number(self, name: str) -> int | None:
        """See `Node.number`."""
        value = self._value.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool):
            problem = f"is {_kind(value)}; it should be a whole number without quotes."
            if isinstance(value, float):
                problem += " It has a fraction or too many digits."
            self.add_error(name, problem)
        elif not 0 <= value <= MAX_NUMBER:
            self.add_error(
                name, f"is out of range; it should be from 0 to {MAX_NUMBER}."
            )
        else:
            return value
        return None

    def rows(self, name: str) -> "Sequence[JsonNode]":
        """See `Node.rows`."""
        value = self._value.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            self.add_error(
                name, f"is {_kind(value)}; it should be a list: [{{…}}, {{…}}]."
            )
            return []
        nodes = []
        for index, row in enumerate(value):
            path = f"{self._path}.{name}[{index}]"
            if isinstance(row, dict):
                nodes.append(JsonNode(row, path, self._owner, self._mistakes))
            else:
                self._mistakes.add(f": {self._owner}, {path}", _not_an_object(row))
        return nodes

    def expect(self, names: Iterable[str]) -> None:
        """See `Node.expect`."""
        for name, meant in likely_typos(self._value, names):
            self.add_error(
                printable(name), f"is no field of ours; did you mean {meant}?"
            )

    def add_error(self, name: str, problem: str) -> None:
        """See `Node.add_error`."""
        self._mistakes.add(f": {self._owner}, {self._path}.{name}", problem)


def parse_json(text: str, path: str) -> JsonContent:
    """Parse a JSON file. Raises `InputError` with the line where its syntax breaks."""

    def refuse_constant(_: str) -> NoReturn:
        tokens = _STRING_OR_CONSTANT.finditer(text)
        constant = next(token for token in tokens if not token[0].startswith('"'))
        line = text.count("\n", 0, constant.start()) + 1
        raise InputError(
            path,
            [f":{line}: not JSON: {constant[0]} is no number."],
            "Write a number, or leave the field out.",
        )

    def parse_integer(digits: str) -> float:
        """Numbers of more than 18 digits are infinite: `number` refuses them, at no cost of time."""
        return float("inf") if len(digits) > 18 else int(digits)

    try:
        value = json.loads(
            text,
            object_pairs_hook=_Object,
            parse_constant=refuse_constant,
            parse_int=parse_integer,
        )
    except json.JSONDecodeError as error:
        reason = error.msg
        if error.pos >= len(text.rstrip()) or reason.startswith("Unterminated string"):
            reason = "the file breaks off, or a quote or bracket is not closed"
        mistake = f":{error.lineno}: not JSON: {reason} (column {error.colno})."
        raise InputError(path, [mistake], _SYNTAX) from None
    except RecursionError:
        raise InputError(
            path, [": its brackets are nested too deeply."], _DEEP
        ) from None
    return JsonContent(value)


def _not_an_object(value: object) -> str:
    return f"is {_kind(value)}; it should be an object: {{…}}."


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "an object")
