"""Draws docs/architecture.svg from the code: the layers of pyproject.toml, and which package imports which.

    python docs/draw_architecture.py

Every package is a box with the first line of its docstring. A line means "imports"; lines that follow from longer paths
are left out (transitive reduction), so that the picture stays readable.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

import grimp

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "architecture.svg"

WIDTH, BOX_HEIGHT, LAYER_GAP, MARGIN = 1180, 46, 30, 20
MODULES = ("plug_ins", "resources", "errors")
"""Layers that are single modules."""

Edges = set[tuple[str, str]]


class Box(NamedTuple):
    """A package at its place; x and y are its top left corner in pixels."""

    name: str
    x: float
    y: float
    width: float

    @property
    def center(self) -> float:
        """The horizontal middle."""
        return self.x + self.width / 2


def draw() -> str:
    """The picture as SVG text."""
    boxes = {box.name: box for box in _place(_layers())}
    height = max(box.y for box in boxes.values()) + BOX_HEIGHT + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
        'font-family="Helvetica, Arial, sans-serif">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for importer, imported in sorted(_reduced(_imports(set(boxes)))):
        parts.append(_line(boxes[importer], boxes[imported]))
    for box in boxes.values():
        parts.append(_box(box))
    return "\n".join([*parts, "</svg>", ""])


def _layers() -> list[list[str]]:
    """The layers of the first import-linter contract, top first, each a list of package names."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = config["tool"]["importlinter"]["contracts"][0]["layers"]
    return [re.findall(r"archqa\.(\w+)", layer) for layer in layers]


def _place(layers: list[list[str]]) -> Iterator[Box]:
    for row, names in enumerate(layers):
        y = MARGIN + row * (BOX_HEIGHT + LAYER_GAP)
        width = (WIDTH - 2 * MARGIN - (len(names) - 1) * LAYER_GAP) / len(names)
        for column, name in enumerate(names):
            yield Box(name, MARGIN + column * (width + LAYER_GAP), y, width)


def _imports(names: set[str]) -> Edges:
    """Which package imports which directly, as the modules say (imports for type checking aside)."""
    graph = grimp.build_graph(
        "archqa", exclude_type_checking_imports=True, cache_dir=None
    )
    edges: Edges = set()
    for module in graph.modules:
        importer = _package(module)
        for imported in graph.find_modules_directly_imported_by(module):
            edge = (importer, _package(imported))
            if edge[0] != edge[1] and set(edge) <= names:
                edges.add(edge)
    return edges


def _package(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def _reduced(edges: Edges) -> Edges:
    """The edges that no longer path replaces."""
    return {edge for edge in edges if not _reaches(*edge, edges - {edge})}


def _reaches(start: str, goal: str, edges: Edges) -> bool:
    reached, frontier = {start}, [start]
    while frontier:
        current = frontier.pop()
        successors = {target for source, target in edges if source == current} - reached
        reached |= successors
        frontier.extend(successors)
    return goal in reached


def _line(importer: Box, imported: Box) -> str:
    top, bottom = importer.y + BOX_HEIGHT, imported.y
    middle = (top + bottom) / 2
    curve = (
        f"M {importer.center:.0f} {top:.0f} C {importer.center:.0f} {middle:.0f} "
        f"{imported.center:.0f} {middle:.0f} {imported.center:.0f} {bottom:.0f}"
    )
    return f'<path d="{curve}" fill="none" stroke="#9aa7b4" stroke-width="1.5"/>'


def _box(box: Box) -> str:
    purpose = _shortened(_purpose(box.name), int(box.width / 6.1))
    return (
        f'<rect x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" height="{BOX_HEIGHT}" rx="6" '
        'fill="#f2f6fa" stroke="#4a6785"/>'
        f'<text x="{box.center:.0f}" y="{box.y + 19:.0f}" text-anchor="middle" font-size="15" '
        f'font-weight="bold" fill="#1d3347">{escape(box.name)}</text>'
        f'<text x="{box.center:.0f}" y="{box.y + 37:.0f}" text-anchor="middle" font-size="12" '
        f'fill="#33475b">{escape(purpose)}</text>'
    )


def _purpose(name: str) -> str:
    """The first sentence of the docstring of a package or module."""
    path = (
        ROOT / "archqa" / (f"{name}.py" if name in MODULES else f"{name}/__init__.py")
    )
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(docstring.split("\n\n")[0].split())


def _shortened(text: str, characters: int) -> str:
    return (
        text
        if len(text) <= characters
        else text[: characters - 1].rsplit(" ", 1)[0] + " …"
    )


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
