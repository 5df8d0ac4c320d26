"""What the docs site has beyond the files in docs/: called by mkdocs (see mkdocs.yml)."""

import logging
import posixpath
import re
import sys
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import api_reference  # noqa: E402
import cli_reference  # noqa: E402

PAGES_FROM_REPOSITORY = {
    "data/README.md": "reference/cases.md",
    "data/CREDITS.md": "reference/credits.md",
    "CHANGELOG.md": "reference/changelog.md",
    "scoring/README.md": "explanation/metrics.md",
    "archqa/engine/README.md": "explanation/engine-card.md",
    "SECURITY.md": "explanation/security-policy.md",
    "CONTRIBUTING.md": "explanation/contributing.md",
    "README.md": "index.md",
}
"""Files outside docs/ and the page that shows each (README.md has a page of its own)."""

_FILE_OF_PAGE = {
    page: file for file, page in PAGES_FROM_REPOSITORY.items() if page != "index.md"
}
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
_CODE = re.compile(r"`[^`]+`")
_FENCE = re.compile(r"^\s*(```|~~~)")
_logger = logging.getLogger("mkdocs.hooks.archqa")


def on_config(config):
    """Put each page in docs/how-to where the navigation says how-to/*.md."""
    for section in config["nav"]:
        for entries in section.values():
            if isinstance(entries, list) and "how-to/*.md" in entries:
                place = entries.index("how-to/*.md")
                entries[place : place + 1] = _pages_in("how-to")
    return config


def on_files(files, config):
    """Add the pages that no file in docs/ has."""
    texts = {page: (ROOT / file).read_text() for page, file in _FILE_OF_PAGE.items()}
    texts["reference/command-line.md"] = cli_reference.page()
    texts["reference/python-api.md"] = api_reference.page()
    for page, text in texts.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown, page, **_others):
    """Let links lead to pages of the site, wherever in the repository the files lie."""
    source = _FILE_OF_PAGE.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    lines, in_code = [], False
    for line in markdown.split("\n"):
        if _FENCE.match(line):
            in_code = not in_code
        lines.append(line if in_code else _for_the_site(line, page, source))
    return "\n".join(lines)


def _for_the_site(line, page, source):
    with_links = _LINK.sub(lambda match: _link(match, page, source), line)
    if not line.startswith("|"):
        return with_links
    # GitHub wants \| for a bar in the code of a table; here the bar alone is read as code.
    return _CODE.sub(lambda match: match[0].replace(r"\|", "|"), with_links)


def _pages_in(folder):
    return sorted(
        f"{folder}/{path.name}" for path in (ROOT / "docs" / folder).glob("*.md")
    )


def _link(match, page, source):
    mark, text, target = match.groups()
    path, hash_sign, anchor = target.partition("#")
    if not path or ":" in path:
        return match[0]
    file = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    shown = _page_of(file)
    if shown:
        relative = posixpath.relpath(shown, posixpath.dirname(page.file.src_uri) or ".")
        return f"{mark}[{text}]({relative}{hash_sign}{anchor})"
    if not (ROOT / file).exists():
        _logger.warning(
            "%s links to %s, which the repository does not have", source, target
        )
    return text


def _page_of(file):
    """The page or picture of a file of the repository; None where the site does not show it."""
    if file in PAGES_FROM_REPOSITORY:
        return PAGES_FROM_REPOSITORY[file]
    in_docs = file.removeprefix("docs/")
    is_made = in_docs in _FILE_OF_PAGE or in_docs in (
        "reference/command-line.md",
        "reference/python-api.md",
    )
    is_shown = file.endswith((".md", ".svg", ".webp")) and (ROOT / file).exists()
    return in_docs if in_docs != file and (is_made or is_shown) else None
