"""Who reviews, and whether blind: two cookies of the browser. The name is asked for once."""

from typing import NamedTuple
from urllib.parse import quote, unquote

from fastapi import FastAPI, Request
from fastapi.responses import Response

from archqa.errors import CallerError
from archqa.review.event import reviewer_name
from archqa.web.site import Pages, Site, redirect, review_url

NAME_COOKIE = "archqa_reviewer"
BLIND_COOKIE = "archqa_blind"

_YEAR_SECONDS = 365 * 24 * 3600


class Reviewer(NamedTuple):
    """Who reviews; `name` is empty for somebody who has not said it yet.

    `blind`: cases are shown without prediction, key and scores until they have been reviewed.
    """

    name: str = ""
    blind: bool = False


class AnswersHidden(Exception):
    """A page shows a run's answers, and whoever opens it reviews blind."""

    def page(self, site: Site, request: Request) -> Response:
        """Return the page in place of the one that shows answers."""
        run_name = request.path_params.get("name", "")
        return site.page(
            "hidden.html.jinja",
            403,
            reviewer=read_reviewer(request),
            then=_requested_url(request),
            review=review_url(run_name) if run_name else "",
        )


class ReviewerPages(Pages):
    """The page that asks who reviews."""

    def add_routes(self, app: FastAPI) -> None:
        """Add the page, and what its form does."""
        app.get("/reviewer")(self.reviewer)
        app.post("/reviewer")(self.save_reviewer)

    def reviewer(self, request: Request, then: str = "/") -> Response:
        """Ask who reviews."""
        reviewer = read_reviewer(request)
        then = _local_url(then)
        return self._site.page(
            "reviewer.html.jinja", reviewer=reviewer, then=then, message=""
        )

    async def save_reviewer(self, request: Request) -> Response:
        """Let the browser keep who reviews, and go on to the page `then`."""
        form = await self._site.read_form(request)
        then = _local_url(form.get("then", "/"))
        reviewer = Reviewer(form.get("reviewer", ""), form.get("blind") == "1")
        try:
            name = reviewer_name(reviewer.name)
        except CallerError as error:
            return self._site.page(
                "reviewer.html.jinja",
                422,
                reviewer=reviewer,
                then=then,
                message=str(error),
            )
        response = redirect(then)
        remember_name(response, name)
        _set_cookie(response, BLIND_COOKIE, "1" if reviewer.blind else "0")
        return response


def read_reviewer(request: Request) -> Reviewer:
    """Return who reviews, as the browser's cookies say."""
    name = unquote(request.cookies.get(NAME_COOKIE, ""))
    return Reviewer(name, request.cookies.get(BLIND_COOKIE) == "1")


def hide_from_blind(request: Request) -> None:
    """Refuse a page with answers to a reviewer who reviews blind. Raises `AnswersHidden`."""
    if read_reviewer(request).blind:
        raise AnswersHidden


def ask_name(request: Request) -> Response:
    """Ask who reviews, and come back to the requested page."""
    return redirect(f"/reviewer?then={quote(_requested_url(request), safe='')}")


def remember_name(response: Response, name: str) -> None:
    """Let the browser keep the reviewer's name."""
    _set_cookie(response, NAME_COOKIE, quote(name))


def _requested_url(request: Request) -> str:
    """Return the path and the query of a request, to come back to."""
    path, query = request.url.path, request.url.query
    return f"{path}?{query}" if query else path


def _local_url(url: str) -> str:
    """Return a URL of this server as it is, and the first page for any other."""
    is_local = url.startswith("/") and not url.startswith(("//", "/\\"))
    return url if is_local and url.isprintable() else "/"


def _set_cookie(response: Response, name: str, value: str) -> None:
    response.set_cookie(
        name, value, max_age=_YEAR_SECONDS, path="/", httponly=True, samesite="strict"
    )
