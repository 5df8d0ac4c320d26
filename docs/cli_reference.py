"""The page of the command line: every command with its help, arguments and options."""

import re

import typer

from archqa.cli.main import app

INTRODUCTION = """\
# Command line

Made from the commands themselves: `archqa COMMAND --help` says the same. Exit codes: 0 fine, 1 some cases failed,
2 wrong call, 3 a file or an extra is missing or malformed, 4 server or budget, 130 interrupted, 143 ended by SIGTERM (a
server ends with 0 by both). `archqa --install-completion` completes commands in your shell.
"""

_EXAMPLES = re.compile(r"^Examples?:\n((?:[ \t]+.*\n?)+)", re.MULTILINE)


def page() -> str:
    """Return the Markdown of the page."""
    archqa = typer.main.get_command(app)
    context = archqa.context_class(archqa, info_name="archqa")
    return INTRODUCTION + "".join(_sections(archqa, context, level=2))


def _sections(group, context, level):
    for name in group.list_commands(context):
        _, command, _ = group.resolve_command(context, [name])
        if command.hidden:
            continue
        own = command.context_class(command, info_name=name, parent=context)
        yield _section(command, own, level)
        if hasattr(command, "commands"):
            yield from _sections(command, own, level + 1)


def _section(command, context, level):
    heading = f"\n{'#' * level} {context.command_path}\n\n"
    if hasattr(command, "commands"):
        return heading + _help(command.help)
    usage = command.get_usage(context).removeprefix("Usage: ")
    return f"{heading}```text\n{usage}\n```\n\n{_help(command.help)}{_parameters(command, context)}"


def _help(text):
    """Paragraphs as Markdown; examples as code to copy; other indented lines as they are."""
    with_examples = _EXAMPLES.sub(_code, (text or "").strip() + "\n")
    parts = re.split(r"(```sh\n.*?```\n)", with_examples, flags=re.DOTALL)
    return (
        "".join(part if part.startswith("```") else _escaped(part) for part in parts)
        + "\n"
    )


def _code(match):
    lines = [line.strip() for line in match[1].strip().splitlines()]
    return "\n```sh\n" + "\n".join(lines) + "\n```\n"


def _parameters(command, context):
    records = [
        parameter.get_help_record(context)
        for parameter in command.params
        if not getattr(parameter, "hidden", False)
    ]
    rows = [
        f"| {_cell_code(name)} | {_cell(help_)} |"
        for name, help_ in filter(None, records)
    ]
    if not rows:
        return ""
    return "\n| argument or option | meaning |\n|---|---|\n" + "\n".join(rows) + "\n"


def _cell_code(text):
    return f"`{text}`".replace("|", r"\|")


def _cell(text):
    return _escaped(" ".join((text or "").split())).replace("|", r"\|")


def _escaped(text):
    """Leave `code` as it is, and let no other sign be read as Markdown or HTML."""
    parts = re.split(r"(`[^`\n]+`)", text)
    return "".join(
        part if part.startswith("`") else re.sub(r"([\[\]*_<>#])", r"\\\1", part)
        for part in parts
    )
