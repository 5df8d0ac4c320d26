"""A client of the review pages that sends what their forms hold, as a browser does."""

import re
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote

import httpx2

BASE_URL = "http://127.0.0.1:8484"


class ReviewClient:
    """A browser of one reviewer."""

    def __init__(self, app: Any, reviewer: str = "", *, blind: bool = False) -> None:
        transport = httpx2.ASGITransport(app=app)
        self.http = httpx2.AsyncClient(transport=transport, base_url=BASE_URL)
        if reviewer:
            self.http.cookies.set("archqa_reviewer", quote(reviewer))
        if blind:
            self.http.cookies.set("archqa_blind", "1")

    async def page(self, url: str) -> str:
        """Return the text of a page without its style."""
        response = await self.http.get(url)
        assert response.status_code == 200, (url, response.status_code)
        return re.sub(r"<style>.*?</style>", "", response.text, flags=re.DOTALL)

    async def form(self, url: str) -> dict[str, str]:
        """Return what the review form of a page would send if nothing were changed."""
        return form_fields(await self.page(url))

    async def post(
        self, url: str, form: dict[str, str], **changes: str
    ) -> httpx2.Response:
        """Send a form with changed fields, named as in `sentence__3` for `field-sentence/3`."""
        fields = {
            f"field-{name.replace('__', '/')}": value for name, value in changes.items()
        }
        return await self.http.post(url, data={**form, **fields})

    async def save(self, url: str, **changes: str) -> httpx2.Response:
        """Open a page, change fields, and save."""
        return await self.post(url, await self.form(url), **changes)


def form_fields(page: str) -> dict[str, str]:
    """Return the fields of the form of a review as a browser would send them."""
    parser = _FormParser()
    parser.feed(page)
    return parser.fields


class _FormParser(HTMLParser):
    """Collects the successful controls of the form of a review, saved or not."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}
        self._is_inside = False
        self._area = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes: dict[str, Any] = dict(attrs)
        if tag == "form":
            self._is_inside = bool(
                {"data-review", "data-unsaved-review"} & attributes.keys()
            )
        if not self._is_inside:
            return
        if tag == "textarea":
            self._area = attributes["name"]
            self.fields[self._area] = ""
        is_radio = attributes.get("type") == "radio"
        is_sent = attributes.get("type") == "hidden" or (
            is_radio and "checked" in attributes
        )
        if tag == "input" and is_sent:
            self.fields[attributes["name"]] = attributes["value"]

    def handle_data(self, data: str) -> None:
        if self._area:
            self.fields[self._area] += data.removeprefix("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._is_inside = False
        if tag == "textarea":
            self._area = ""
