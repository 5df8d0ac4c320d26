"""A client of the pages that asks questions."""

import re
from pathlib import Path

import httpx2

from archqa.settings import Settings
from archqa.web import WebConfig, create_app

NOTE = (
    "He was admitted with oedema.\n- ASA 81 mg p.o. daily\n\n"
    "Furosemide 40 mg daily was given for fluid overload."
)


def client_of(runs: Path, record: str | None = None) -> httpx2.AsyncClient:
    """Return a client of pages that show a folder of runs and, if given, a record."""
    app = create_app(WebConfig([runs], record=record), settings=Settings())
    transport = httpx2.ASGITransport(app=app)
    return httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8484")


async def send(
    client: httpx2.AsyncClient, path: str = "/ask", **fields: str
) -> httpx2.Response:
    """Send a form with its token."""
    match = re.search(
        r'name="form_token" value="([^"]+)"', (await client.get("/")).text
    )
    assert match
    return await client.post(path, data={"form_token": match[1], **fields})


async def ask(client: httpx2.AsyncClient, **fields: str) -> str:
    """Ask a question, wait until it has ended, and return the URL of its answer."""
    response = await send(client, **fields)
    assert response.status_code == 303
    url = str(response.headers["location"])
    events = await client.get(f"{url}/events")
    assert events.text.rstrip().splitlines()[-2] == "event: done"
    return url


async def answer_page(client: httpx2.AsyncClient, **fields: str) -> str:
    """Ask a question and return the page of its answer."""
    return (await client.get(await ask(client, **fields))).text
