"""What all pages share: the templates, and the token that every form carries."""

import secrets
from pathlib import Path
from typing import Any, NamedTuple

from archqa.report.note_view import MARK_LABELS, MARK_SYMBOLS
from archqa.report.page import encodable, jinja_environment

TEMPLATES = Path(__file__).resolve().parent / "templates"


class LiveLinks(NamedTuple):
    """Links of a live report: the URL of a run's review pages, empty for several runs."""

    review_url: str = ""


class PageRenderer:
    """Renders the pages of one process. Every form carries its form token."""

    def __init__(self) -> None:
        self._form_token = secrets.token_urlsafe(24)

    def is_valid_form_token(self, form_token: str) -> bool:
        """Whether a form came from one of these pages."""
        return secrets.compare_digest(form_token.encode(), self._form_token.encode())

    def render(self, template_name: str, **values: Any) -> str:
        """Return the page of a template."""
        shared_values = {
            "live": LiveLinks(),
            "mark_labels": MARK_LABELS,
            "mark_symbols": MARK_SYMBOLS,
            "form_token": self._form_token,
            "text": True,
            "part_level": 3,
        }
        template = jinja_environment(TEMPLATES).get_template(template_name)
        return encodable(template.render(shared_values | values))

    def error(self, message: str) -> str:
        """Return the page that says why another cannot be shown."""
        return self.render("error.html.jinja", message=message)
