"""Who reviews, and whether blind: two cookies of the browser. The name is asked for once."""

from typing import NamedTuple
from urllib.parse import quote, unquote

from fastapi import Request
from fastapi.responses import Response

NAME_COOKIE = "archqa_reviewer"
BLIND_COOKIE = "archqa_blind"

_YEAR_SECONDS = 365 * 24 * 3600


class Reviewer(NamedTuple):
    """Who reviews; `name` is empty for somebody who has not said it yet.

    `blind`: cases are shown without prediction, key and scores until they have been reviewed.
    """

    name: str = ""
    blind: bool = False


def read_reviewer(request: Request) -> Reviewer:
    """Return who reviews, as the browser's cookies say."""
    name = unquote(request.cookies.get(NAME_COOKIE, ""))
    return Reviewer(name, request.cookies.get(BLIND_COOKIE) == "1")


class AnswersHidden(Exception):
    """A page shows a run's answers, and whoever asks for it reviews blind."""


def hide_from_blind(request: Request) -> None:
    """Keep a page from whoever reviews blind. Raises `AnswersHidden`."""
    if read_reviewer(request).blind:
        raise AnswersHidden


def remember_name(response: Response, name: str) -> None:
    """Let the browser keep the reviewer's name."""
    _set_cookie(response, NAME_COOKIE, quote(name))


def remember_blind(response: Response, *, blind: bool) -> None:
    """Let the browser keep whether its reviewer works blind."""
    _set_cookie(response, BLIND_COOKIE, "1" if blind else "0")


def requested_url(request: Request) -> str:
    """Return the path and the query of a request, to come back to."""
    path, query = request.url.path, request.url.query
    return f"{path}?{query}" if query else path


def local_url(url: str) -> str:
    """Return a URL of this server as it is, and the first page for any other."""
    is_local = url.startswith("/") and not url.startswith(("//", "/\\"))
    return url if is_local and url.isprintable() else "/"


def _set_cookie(response: Response, name: str, value: str) -> None:
    response.set_cookie(
        name, value, max_age=_YEAR_SECONDS, path="/", httponly=True, samesite="strict"
    )
