"""Responses to page requests and forms, and the reading of forms."""

from fastapi import Request
from fastapi.responses import HTMLResponse, Response

from archqa.safety.text import without_surrogates
from archqa.web.page_renderer import PageRenderer

_MAX_FORM_FIELDS = 5000
_MAX_FIELD_BYTES = 4 * 2**20


async def read_form(request: Request, renderer: PageRenderer) -> dict[str, str] | None:
    """Return the text fields of a form; None if the form is not from these pages.

    Files are refused.
    """
    form = await request.form(
        max_files=0, max_fields=_MAX_FORM_FIELDS, max_part_size=_MAX_FIELD_BYTES
    )
    fields = {name: field for name, field in form.items() if isinstance(field, str)}
    if not renderer.is_valid_form_token(fields.get("form_token", "")):
        return None
    return fields


def html_response(page: str | None) -> Response:
    """Return a page; None is one that does not exist."""
    if page is None:
        return HTMLResponse("There is no such page.", 404)
    return HTMLResponse(without_surrogates(page))


def json_response(content: str | None) -> Response:
    """Return JSON for a page's script; None is data that does not exist."""
    if content is None:
        return html_response(None)
    return Response(without_surrogates(content), media_type="application/json")


def redirect(url: str | None) -> Response:
    """Redirect to the page that shows the form's effect; None is a page that does not exist."""
    if url is None:
        return html_response(None)
    return Response(status_code=303, headers={"location": url})


def invalid_form() -> Response:
    """Refuse a form that is not from these pages."""
    return HTMLResponse("The form is too old or not from this page; load the page again.", 403)
