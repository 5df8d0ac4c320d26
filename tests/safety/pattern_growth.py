"""Times every regular expression of the package on growing hostile input; run as a program.

Its argument is 1, or N for every N-th pattern.

Patterns are recorded as `re` compiles them while every module is imported, every table is read and
a question is answered; those that a function compiles from a constant are read from the source.
CPU time is measured, and only ratios decide, so a busy machine changes nothing.
"""

import ast
import functools
import importlib
import inspect
import json
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from re import _constants as constants
from re import _parser as parser
from typing import Any

ROOT = Path(__file__).parents[2]
FUNCTIONS = (
    "compile",
    "sub",
    "subn",
    "search",
    "match",
    "fullmatch",
    "findall",
    "finditer",
    "split",
)
LENGTH = 2000
"""A quadratic pattern takes over 2 ms for this many characters, a linear one 0.1 ms."""
FLOOR_SECONDS = 0.0015
MAX_GROWTH = 8.0
"""For input of four times the length: 4 is linear, 16 is quadratic."""
MIN_LONG_REPEAT = 30
SAMPLE_CHARACTERS = " \t\n0aA_-.,'\"<(/:*é"

Place = tuple[str, int, str]
"""Path, line and function of `re`."""


def source_files() -> list[Path]:
    files: list[Path] = []
    for package in ("archqa", "scoring"):
        files += sorted((ROOT / package).rglob("*.py"))
    return files


def record_patterns() -> dict[tuple[str | bytes, int], Place]:
    recorded: dict[tuple[str | bytes, int], Place] = {}
    for name in FUNCTIONS:
        setattr(re, name, recording(name, recorded))
    modules = import_everything()
    call_caches(modules)
    import archqa

    note = "Assessment: he has pneumonia.\nPlan: start ceftriaxone 1 g daily and call Dr. A."
    archqa.ask("Why was he given ceftriaxone, and when is the visit?", note=note)
    texts = {text for text, _ in recorded}
    for path, call in calls_of_re():
        try:
            text = ast.literal_eval(call.args[0])
        except (ValueError, IndexError):
            continue
        if text not in texts:
            assert isinstance(call.func, ast.Attribute)
            recorded[text, 0] = (path, call.lineno, call.func.attr)
    return recorded


def recording(name: str, recorded: dict[Any, Place]) -> Callable[..., Any]:
    function = getattr(re, name)
    position_of_flags = {"compile": 0}.get(name, 1)

    def record(pattern: Any, *arguments: Any, **options: Any) -> Any:
        frame = sys._getframe(1)
        path = Path(frame.f_code.co_filename)
        is_ours = path.is_relative_to(ROOT / "archqa") or path.is_relative_to(
            ROOT / "scoring"
        )
        if is_ours and isinstance(pattern, (str, bytes)):
            flags = options.get("flags", 0)
            if name not in {"sub", "subn", "split"}:
                flags = (*arguments, *[0] * 3)[position_of_flags] or flags
            place = (str(path.relative_to(ROOT)), frame.f_lineno, name)
            recorded.setdefault((pattern, int(flags)), place)
        return function(pattern, *arguments, **options)

    return record


def import_everything() -> list[Any]:
    from archqa.errors import MissingExtra

    modules = []
    for path in source_files():
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if path.name == "__main__.py":
            continue
        try:
            modules.append(importlib.import_module(name.removesuffix(".__init__")))
        except (ImportError, MissingExtra):
            sys.stderr.write(f"not installed: {name}\n")
    return modules


def call_caches(modules: Iterable[Any]) -> None:
    """Call every cached function that needs no argument: the tables are read in such functions."""
    for module in modules:
        for value in list(vars(module).values()):
            if not isinstance(value, functools._lru_cache_wrapper):
                continue
            parameters = inspect.signature(value).parameters.values()
            if all(one.default is not inspect.Parameter.empty for one in parameters):
                value()


def calls_of_re() -> Iterator[tuple[str, ast.Call]]:
    for path in source_files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "re"
                and node.func.attr in FUNCTIONS
            ):
                yield str(path.relative_to(ROOT)), node


def methods_by_place() -> dict[tuple[str, int], set[str]]:
    """The methods called on each module-level pattern; `search` where it is passed on."""
    definitions: dict[tuple[str, str], int] = {}
    methods: dict[tuple[str, str], set[str]] = defaultdict(set)
    importers: dict[str, set[str]] = defaultdict(set)
    for file in source_files():
        path = str(file.relative_to(ROOT))
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                (target, *_) = node.targets
                if isinstance(target, ast.Name):
                    definitions[path, target.id] = node.value.lineno
        note_uses(tree, path, methods, importers)
    used = {}
    for (path, name), line in definitions.items():
        called = set(methods[path, name])
        for other in importers[name]:
            called |= methods[other, name]
        if importers["." + name]:
            called.add("search")
        used[path, line] = called
    return used


def note_uses(
    tree: ast.Module,
    path: str,
    methods: dict[tuple[str, str], set[str]],
    importers: dict[str, set[str]],
) -> None:
    with_method = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                importers[alias.name].add(path)
        if isinstance(node, ast.Attribute):
            importers["." + node.attr].add(path)
            if isinstance(node.value, ast.Name):
                methods[path, node.value.id].add(node.attr)
                with_method.add(node.value)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Load)
            and node not in with_method
        ):
            methods[path, node.id].add("search")


def hostile_inputs(pattern: str, flags: int) -> list[tuple[str, str, str]]:
    """Prefixes, repeated texts and suffixes made from a pattern's own parts."""
    tree = parser.parse(pattern, flags)
    inputs = dict.fromkeys(("", unit, "") for unit in " \n0a_")
    repeats = list(long_repeats(tree, ""))
    for prefix, units in repeats:
        for unit in units:
            inputs |= dict.fromkeys([(prefix, unit, ""), (prefix, unit, "\0")])
            inputs |= dict.fromkeys([("", unit, "!"), ("", prefix + unit, "")])
        inputs["", prefix, ""] = None
    whole = sample(tree)
    if repeats:
        inputs |= dict.fromkeys(
            ("", unit, "") for unit in (whole, whole + " ", whole[:-1])
        )
    return [item for item in inputs if item[1]]


def long_repeats(tree: Any, before: str) -> Iterator[tuple[str, list[str]]]:
    """Each long repeat: a text that leads to it, and texts that it repeats."""
    for operation, argument in tree:
        if operation is constants.BRANCH:
            for branch in argument[1]:
                yield from long_repeats(branch, before)
        elif operation in (constants.ASSERT, constants.ASSERT_NOT):
            yield from long_repeats(argument[1], before)
        elif operation is constants.SUBPATTERN:
            yield from long_repeats(argument[3], before)
        elif operation is constants.ATOMIC_GROUP:
            yield from long_repeats(argument, before)
        elif operation in REPEATS:
            _, most, body = argument
            if most >= MIN_LONG_REPEAT:
                units = [sample(body, choice) for choice in range(6)]
                yield before, [unit for unit in dict.fromkeys(units) if unit]
            yield from long_repeats(body, before)
        before += sample([(operation, argument)])


REPEATS = (
    constants.MAX_REPEAT,
    constants.MIN_REPEAT,
    constants.POSSESSIVE_REPEAT,
)


def sample(tree: Any, choice: int = 0) -> str:
    """A text that a pattern matches, but for its assertions."""
    text = ""
    for operation, argument in tree:
        if operation is constants.BRANCH:
            text += sample(argument[1][choice % len(argument[1])], choice)
        elif operation is constants.SUBPATTERN:
            text += sample(argument[3], choice)
        elif operation is constants.ATOMIC_GROUP:
            text += sample(argument, choice)
        elif operation in REPEATS:
            text += sample(argument[2], choice) * argument[0]
        elif operation is constants.LITERAL:
            text += chr(argument)
        elif operation in (constants.ANY, constants.NOT_LITERAL, constants.IN):
            characters = matched_characters(operation, argument)
            text += characters[choice % len(characters)] if characters else ""
    return text


def matched_characters(operation: Any, argument: Any) -> str:
    """Characters that a class matches: its own, then common ones."""
    candidates = ""
    if operation is constants.IN:
        for item, value in argument:
            if item is constants.LITERAL:
                candidates += chr(value)
            elif item is constants.RANGE:
                candidates += chr(value[0])
    state = parser.State()
    subpattern = parser.SubPattern(state, [(operation, argument)])
    one = re._compiler.compile(subpattern)  # type: ignore[attr-defined]
    matched = [
        character
        for character in candidates + SAMPLE_CHARACTERS
        if one.match(character)
    ]
    return "".join(dict.fromkeys(matched))


def grows(pattern: re.Pattern[Any], method: str) -> str:
    """The input on which the time of a pattern grows faster than its length; "" if there is none."""
    is_bytes = isinstance(pattern.pattern, bytes)
    text = pattern.pattern.decode("latin-1") if is_bytes else pattern.pattern
    flags = pattern.flags & ~re.UNICODE if is_bytes else pattern.flags
    for prefix, unit, suffix in hostile_inputs(text, flags):

        def seconds(
            length: int, prefix: str = prefix, unit: str = unit, suffix: str = suffix
        ) -> float:
            whole: Any = prefix + unit * max(1, length // len(unit)) + suffix
            if is_bytes:
                whole = whole.encode("latin-1", "ignore")
            started = time.thread_time()
            if method == "search":
                for _ in pattern.finditer(whole):
                    pass
            else:
                getattr(pattern, method)(whole)
            return time.thread_time() - started

        shape = f"{prefix!r} + {unit!r} * n + {suffix!r}"
        if min(seconds(30), seconds(30)) > 0.05:
            return f"{shape}: exponential"
        if seconds(250) > 4 * FLOOR_SECONDS:
            growth = minimum(seconds, 250) / minimum(seconds, 30)
            if growth > 40:
                return f"{shape}: {growth:.0f} times the time for 8 times the length"
        if seconds(LENGTH) < FLOOR_SECONDS:
            continue
        longer = minimum(seconds, LENGTH)
        growth = longer / minimum(seconds, LENGTH // 4)
        if longer > FLOOR_SECONDS and growth > MAX_GROWTH:
            return f"{shape}: {growth:.0f} times the time for 4 times the length"
    return ""


def minimum(seconds: Callable[[int], float], length: int) -> float:
    return max(1e-9, min(seconds(length) for _ in range(4)))


def main() -> None:
    used = methods_by_place()
    recorded = record_patterns()
    growing = []
    every = int(sys.argv[1])
    for (text, flags), (path, line, function) in list(recorded.items())[::every]:
        called = used.get((path, line), set()) or {function}
        methods = called & {"match", "fullmatch"}
        if called - methods:
            methods = {"search"}
        for method in methods:
            shape = grows(re.compile(text, flags), method)
            if shape:
                growing.append(f"{path}:{line} {text!r} ({method}) on {shape}")
    report = {"patterns": len(recorded), "growing": growing}
    sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main()
