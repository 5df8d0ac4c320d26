"""Prompts, read from `prompts/<agent>/v<N>/{system,user}.jinja`.

Record text is data: the filters `record` and `line` escape anything in it that looks like one of
our delimiters.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archqa import resources
from archqa.core.near_misses import unknown_name
from archqa.errors import CallerError
from archqa.llm.model import Message

if TYPE_CHECKING:
    import jinja2

_TAGS = (
    "note|message|clinician_question|context|sentence|judgements|draft|answer|question|"
    "card|found|tried|chart_notes|note_sentences"
)
_DELIMITER = re.compile(rf"<(?=\s*+/?\s*+(?:{_TAGS})\b)", re.IGNORECASE)


class Prompts:
    """A folder of prompts; what it does not have is looked for in archqa's own.

    `render` fills one in; `digest` identifies its exact text with all includes.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or resources.prompts_dir()
        self._folders = tuple(dict.fromkeys((self.folder, resources.prompts_dir())))
        self._digests: dict[str, str] = {}

    def render(self, name: str, values: dict[str, Any]) -> tuple[Message, ...]:
        """The system and user message of a prompt such as `decision/v1`."""
        system = self.render_text(f"{name}/system.jinja", values)
        user = self.render_text(f"{name}/user.jinja", values)
        return Message(role="system", content=system), Message(
            role="user", content=user
        )

    def render_text(self, name: str, values: dict[str, Any]) -> str:
        """A single template, such as the text of a repair turn.

        Raises `CallerError` if there is none.
        """
        import jinja2

        try:
            template = self._environment.get_template(name)
        except jinja2.TemplateNotFound:
            prompt, _, _ = name.rpartition("/")
            if prompt and not any(
                (folder / prompt).is_dir() for folder in self._folders
            ):
                raise unknown_name("prompt", prompt, self.names()) from None
            raise CallerError(
                f"There is no prompt file {name} in {self.folder}."
            ) from None
        return template.render(values).strip()

    def names(self) -> list[str]:
        """Every prompt and version, such as `decision/v1`, in alphabetical order."""
        systems = self.folder.glob("*/v*/system.jinja")
        return sorted(
            path.parent.relative_to(self.folder).as_posix() for path in systems
        )

    def digest(self, name: str) -> str:
        """sha256 over the prompt's files and everything they include."""
        if name not in self._digests:
            parts = [
                f"{file}\n{source}"
                for file, source in sorted(self._sources(name).items())
            ]
            text = "\n".join(parts)
            self._digests[name] = hashlib.sha256(text.encode()).hexdigest()
        return self._digests[name]

    def fields(self, name: str) -> set[str]:
        """The names of the values that a prompt needs, with all includes."""
        from jinja2 import meta

        names: set[str] = set()
        for source in self._sources(name).values():
            names |= meta.find_undeclared_variables(self._environment.parse(source))
        return names

    @cached_property
    def _environment(self) -> "jinja2.Environment":
        import jinja2  # Slow to import, and the embedded engine renders no prompt.

        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(self._folders),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            autoescape=False,
            auto_reload=False,
        )
        # No prompt uses Jinja's own functions, and they would be copied at every rendering.
        environment.globals.clear()
        environment.filters["record"] = escape_delimiters
        environment.filters["line"] = as_line
        environment.filters["by_sentence"] = by_sentence
        return environment

    def _sources(self, name: str) -> dict[str, str]:
        """The text of a prompt's files, and of all that they include, by file."""
        from jinja2 import meta

        pending: list[str] = []
        for folder in reversed(self._folders):
            if (folder / name).is_dir():
                pending = [
                    f"{name}/{path.name}" for path in (folder / name).glob("*.jinja")
                ]
        if not pending:
            raise unknown_name("prompt", name, self.names())
        sources: dict[str, str] = {}
        while pending:
            file = pending.pop()
            if file not in sources:
                paths = [folder / file for folder in self._folders]
                path = next((path for path in paths if path.is_file()), paths[0])
                sources[file] = path.read_text(encoding="utf-8")
                syntax_tree = self._environment.parse(sources[file])
                pending += filter(None, meta.find_referenced_templates(syntax_tree))
        return sources


@cache
def prompts_in(folder: Path) -> Prompts:
    """The prompts of a folder, with archqa's own behind them."""
    return Prompts(folder)


@cache
def default_prompts() -> Prompts:
    """The prompts that come with archqa."""
    return Prompts()


def by_sentence(
    judgements: Mapping[str, Iterable[Any]],
) -> list[tuple[str, list[tuple[str, Any]]]]:
    """Sentence id → who judged it, and the judgement; from judgements by the name of their judge."""
    views: dict[str, list[tuple[str, Any]]] = {}
    for name, judged in judgements.items():
        for each in judged:
            views.setdefault(each.sentence_id, []).append((name, each))
    return list(views.items())


def escape_delimiters(text: str) -> str:
    """`text` with the angle bracket replaced in anything that could open or close one of our
    delimiters.
    """
    return _DELIMITER.sub("\u2039", text)


@lru_cache(4096)
def as_line(text: str) -> str:
    """`escape_delimiters` on one line: a line break could make one sentence look like two numbered
    ones.
    """
    return " ".join(escape_delimiters(text).split())
