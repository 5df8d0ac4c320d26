"""The live pages as an ASGI application: what they show, refuse and save."""

import logging
import re
from collections.abc import AsyncIterator, MutableMapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

pytest.importorskip("fastapi", reason="the extra `web` is not installed")

from archqa.settings import Settings
from archqa.web import WebConfig, create_app
from tests.report.synthetic_runs import cases_with_specialties, create_run

NOTE = "He was admitted with oedema.\n- ASA 81 mg p.o. daily\n\nFurosemide 40 mg daily was given for fluid overload."
SECRET = "zweifelsohne"  # A word that must not appear in a log.


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    for name, threshold in (("one", 0.5), ("two", 0.35)):
        create_run(folder, cases_with_specialties(3), name=name, threshold=threshold)
    return folder


@pytest.fixture
async def client(runs: Path) -> AsyncIterator[httpx2.AsyncClient]:
    async with _client(create_app(WebConfig([runs]), settings=Settings())) as client:
        yield client


def _client(app: object, base: str = "http://127.0.0.1:8484") -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(app=app)  # type: ignore[arg-type]
    return httpx2.AsyncClient(transport=transport, base_url=base)


async def _token_of(client: httpx2.AsyncClient) -> str:
    match = re.search(
        r'name="form_token" value="([^"]+)"', (await client.get("/")).text
    )
    assert match
    return match[1]


async def _ask_and_wait(
    client: httpx2.AsyncClient, note: str = NOTE, question: str = "Why furosemide?"
) -> str:
    """Ask a question, wait for its answer and return the URL of the answer."""
    form = {"form_token": await _token_of(client), "question": question, "note": note}
    response = await client.post("/ask", data=form)
    assert response.status_code == 303
    answer_url = str(response.headers["location"])
    events = await client.get(f"{answer_url}/events")
    assert events.text.rstrip().splitlines()[-2] == "event: done"
    return answer_url


async def test_the_first_page_lists_the_runs_and_has_a_form(
    client: httpx2.AsyncClient,
) -> None:
    page = await client.get("/")
    assert page.status_code == 200
    assert 'href="/runs/one"' in page.text
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"
    assert not re.search(r"<script[^>]*>[^<]", page.text)


async def test_a_run_is_shown_live_and_two_are_compared(
    client: httpx2.AsyncClient,
) -> None:
    page = await client.get("/runs/one/cases/0")
    assert 'href="/runs/one/review/0">Review this case' in page.text
    assert "Copy answer with citations" in page.text
    comparison = await client.get("/compare", params={"first": "one", "second": "two"})
    assert "What changes from run 1 to run 2" in comparison.text
    assert (
        await client.get("/compare", params={"first": "one", "second": "nine"})
    ).status_code == 404


async def test_the_trace_of_a_case_has_a_page(client: httpx2.AsyncClient) -> None:
    page = await client.get("/runs/one/cases/0/trace")
    assert page.status_code == 200
    assert "What the model said." in page.text
    assert (await client.get("/runs/one/cases/3/trace")).status_code == 404
    assert (await client.get("/runs/nine/cases/0/trace")).status_code == 404


async def test_a_running_run_is_shown_in_its_current_state(
    client: httpx2.AsyncClient, runs: Path
) -> None:
    await client.get("/runs/one")
    cases = runs / "one" / "cases.jsonl"
    cases.write_text(cases.read_text().splitlines(keepends=True)[0])
    assert "not reached" in (await client.get("/runs/one")).text


@pytest.mark.parametrize(
    "path",
    [
        "/runs/..", "/runs/../..", "/runs/../etc", "/runs/one/../../etc", "/runs//etc", "/runs/.", "/runs/one\0",
        "/runs/one/review/99", "/runs/one/review/-1", "/runs/nine/review/0", "/answers/none", "/answers/none/events",
        "/static/../app.py", "/static/app.py", "/docs", "/openapi.json",
    ],
)  # fmt: skip
async def test_no_path_leads_outside(runs: Path, path: str) -> None:
    (runs.parent / "etc").mkdir()
    (runs.parent / "etc" / "run.json").write_bytes(
        (runs / "one" / "run.json").read_bytes()
    )
    assert await _status(create_app(WebConfig([runs]), settings=Settings()), path) in {
        400,
        404,
    }


async def _status(app: Any, path: str) -> int:
    """Return the status of the response to a path that no client has normalised."""
    messages: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: MutableMapping[str, Any]) -> None:
        messages.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "http_version": "1.1",
        "scheme": "http",
        "headers": [(b"host", b"127.0.0.1")],
    }
    await app(scope, receive, send)
    return int(messages[0]["status"])


async def test_a_link_out_of_the_folder_is_no_run(
    client: httpx2.AsyncClient, runs: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    outside = create_run(tmp_path / "elsewhere", cases_with_specialties(1))
    (runs / "linked").symlink_to(outside)
    assert (await client.get("/runs/linked")).status_code == 404


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"host": "evil.example"}, 421),
        ({"host": "evil.example", "origin": "http://evil.example"}, 421),
    ],
)
async def test_forms_from_elsewhere_are_refused(
    client: httpx2.AsyncClient, headers: dict[str, str], status: int
) -> None:
    form = {"form_token": await _token_of(client), "question": "q", "note": "n"}
    assert (await client.post("/ask", data=form, headers=headers)).status_code == status


@pytest.mark.parametrize("path", ["/ask", "/runs/one/review/0", "/answers/x"])
async def test_a_form_without_its_token_is_refused(
    client: httpx2.AsyncClient, path: str, runs: Path
) -> None:
    for form in (
        {},
        {"form_token": "guess"},
        {"form_token": "", "label-0": "essential"},
    ):
        assert (await client.post(path, data=form)).status_code == 403
    assert not (runs / "annotations").exists()


async def test_forms_accept_post_only(client: httpx2.AsyncClient) -> None:
    assert (await client.get("/ask")).status_code == 405


async def test_a_body_over_the_limit_is_refused(client: httpx2.AsyncClient) -> None:
    form = {
        "form_token": await _token_of(client),
        "question": "q",
        "note": "n" * 5_000_000,
    }
    assert (await client.post("/ask", data=form)).status_code == 413


async def test_a_token_is_required_unless_on_loopback(runs: Path) -> None:
    app = create_app(WebConfig([runs]), token="geheim-123", settings=Settings())
    async with _client(app, "http://ward.example:8484") as client:
        for headers in (
            {},
            {"authorization": "Bearer guess"},
            {"cookie": "archqa_token=guess"},
        ):
            response = await client.get("/runs/one", headers=headers)
            assert response.status_code == 401
            assert "Cited" not in response.text
        assert (await client.post("/ask?token=geheim-123", data={})).status_code == 401
        login = await client.get("/runs/one?token=geheim-123")
        assert login.status_code == 303
        assert login.headers["location"] == "/runs/one"
        assert "HttpOnly; SameSite=Strict" in login.headers["set-cookie"]
        bearer = {"authorization": "Bearer geheim-123"}
        assert (await client.get("/runs/one", headers=bearer)).status_code == 200
        assert (
            await client.get("/runs/one")
        ).status_code == 200  # The cookie that was set.


async def test_no_redirect_leads_to_another_site(runs: Path) -> None:
    app = create_app(WebConfig([runs]), token="geheim-123", settings=Settings())
    async with _client(app, "http://ward.example:8484") as client:
        login = await client.get(
            "http://ward.example:8484//evil.example/?token=geheim-123"
        )
        assert login.headers["location"].startswith("/evil.example")


async def test_no_note_text_gets_into_logs(
    client: httpx2.AsyncClient,
    runs: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.DEBUG)

    def explode(*_: object) -> str:
        raise ValueError(f"cannot read {SECRET}")

    await _ask_and_wait(client, f"{NOTE} {SECRET}", f"What of {SECRET}?")
    monkeypatch.setattr("archqa.web.library.RunLibrary.runs", explode)
    response = await client.get("/")
    assert response.status_code == 500
    assert SECRET not in response.text
    assert "unexpected ValueError" in caplog.text
    assert SECRET not in caplog.text
