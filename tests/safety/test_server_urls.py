"""One server in several spellings is one server; two servers are two, whatever their models are called."""

from pathlib import Path

import pytest

from archqa.llm.cache import SqliteCache
from archqa.llm.model import Reply
from archqa.llm.scripted import ScriptedModel
from archqa.runs.cost_estimate import estimate_cost
from archqa.runs.plan import Selection, plan_run
from archqa.runs.predict import predict
from archqa.safety.server_urls import model_server_problem, server_identity
from archqa.settings import Settings
from tests.fakes.cases import write_synthetic_cases
from tests.fakes.server import FakeServer
from tests.llm.asking import cached_model, make_request, server_model


@pytest.mark.parametrize(
    "spelling",
    [
        "http://models.example/v1",
        "http://models.example/v1/",
        "http://models.example:80/v1",
        "HTTP://Models.Example/v1",
        "http://user:secret@models.example/v1",
        "http://models.example/v1?api-key=secret",
        "http://models.example/v1#part",
    ],
)
def test_spellings_of_one_server_are_equal(spelling: str) -> None:
    assert server_identity(spelling) == "http://models.example/v1"


@pytest.mark.parametrize(
    "url",
    [
        "https://models.example/v1",
        "http://models.example:8000/v1",
        "http://other.example/v1",
        "http://models.example/v2",
        "http://models.example/V1",
        "http://models.example/v1?api-version=2026-01-01",
        "http://models.example/v1?deployment=clinical",
        "http://models.example:443/v1",
    ],
)
def test_another_server_is_another_identity(url: str) -> None:
    assert server_identity(url) != server_identity("http://models.example/v1")


@pytest.mark.parametrize(
    ("host", "is_host"),
    [
        ("127.0.0.1:8000", True),
        ("256.1.1.1", False),
        ("[::1]:8000", True),
        ("[::1]8000", False),
        ("[1:2]", False),
        ("[v1.a]", False),
        ("münchen.example", True),
        ("\N{SNOWMAN}.example", False),
        (":8000", False),
    ],
)
def test_a_host_is_an_address_or_a_name_that_can_be_looked_up(
    host: str, is_host: bool
) -> None:
    problem = model_server_problem(f"http://{host}/v1")
    assert problem == ("" if is_host else "is not a URL")


def test_azure_deployments_and_versions_are_told_apart() -> None:
    azure = "https://x.openai.azure.com:443/openai/deployments"
    assert server_identity(f"{azure}/one?api-version=1&api-key=secret") == (
        "https://x.openai.azure.com/openai/deployments/one?api-version=1"
    )
    assert server_identity(f"{azure}/one?api-version=1") != server_identity(
        f"{azure}/two?api-version=1"
    )
    assert server_identity(f"{azure}/one?api-version=1") != server_identity(
        f"{azure}/one?api-version=2"
    )


def test_an_address_of_ip_version_6_keeps_its_brackets() -> None:
    assert server_identity("http://[::1]:80/v1") == "http://[::1]/v1"
    assert server_identity("http://[::1]:8080/v1") == "http://[::1]:8080/v1"


def test_no_base_url_is_openai() -> None:
    assert server_identity(None) == server_identity("https://API.openai.com:443/v1/")


async def test_two_servers_with_one_model_name_both_get_their_request(
    tmp_path: Path,
) -> None:
    with (
        SqliteCache(tmp_path / "replies.db") as cache,
        FakeServer() as first_server,
        FakeServer() as second_server,
    ):
        for server in (first_server, second_server, first_server, second_server):
            async with server_model(server) as model:
                cached = cached_model(
                    model, cache, server=server_identity(server.base_url)
                )
                await cached.ask(make_request())
        assert (first_server.count, second_server.count) == (1, 1)
        assert len(cache) == 2


async def test_one_server_in_two_spellings_is_asked_once(tmp_path: Path) -> None:
    with SqliteCache(tmp_path / "replies.db") as cache, FakeServer() as server:
        async with server_model(server) as model:
            for spelling in (
                server.base_url,
                f"{server.base_url}/",
                server.base_url.upper(),
            ):
                identity = server_identity(spelling.replace("/V1", "/v1"))
                await cached_model(model, cache, server=identity).ask(make_request())
        assert server.count == 1


async def test_a_reply_stored_without_a_server_is_kept_but_not_used(
    tmp_path: Path,
) -> None:
    """Caches of earlier versions were keyed by the request alone."""
    with SqliteCache(tmp_path / "replies.db") as cache:
        cache.put(make_request().digest, Reply(text="of some server"), "fake")
        reply = await cached_model(ScriptedModel(["of this server"]), cache).ask(
            make_request()
        )
        assert reply.text == "of this server"
        assert cache.stats().by_model == {"fake": 2}


def test_a_dry_run_finds_the_replies_of_its_own_server_alone(tmp_path: Path) -> None:
    cases = write_synthetic_cases(tmp_path / "cases.jsonl", count=2, sentences=3)

    def cached_calls(base_url: str) -> int:
        settings = Settings(
            model="fake", base_url=base_url, cache_dir=tmp_path / "cache"
        )
        return estimate_cost(plan_run(cases, None, Selection(), settings)).cached_calls

    with FakeServer() as server, FakeServer() as other_server:
        predict(
            cases,
            out=tmp_path / "run",
            settings=Settings(
                model="fake", base_url=server.base_url, cache_dir=tmp_path / "cache"
            ),
        )
        assert cached_calls(server.base_url) > 0
        assert cached_calls(f"{server.base_url}/") > 0
        assert cached_calls(other_server.base_url) == 0
