"""What a server lacks is learned from its refusals, and once."""

import asyncio
from typing import Any

import httpx2
import pytest

from archqa.errors import ModelError
from archqa.llm.client import ServerModel
from archqa.llm.dialect import Dialect, StructuredOutputMode
from archqa.llm.limits import RetryingModel
from archqa.llm.model import FinishReason, Message, TransientError
from archqa.llm.structured import parse_output
from tests.fakes.model import FakeModel, Options
from tests.fakes.server import FakeServer
from tests.fakes.wire import HttpRequest
from tests.llm.asking import API_KEY, ask_server, make_request, server_model


def form(body: dict[str, Any]) -> str:
    found: str = body.get("response_format", {}).get("type", "text")
    return found


async def forms_after(*faults: str, requests: int = 1, tries: int = 5) -> list[str]:
    """In which forms a server with these faults was asked, until each of the requests was answered."""
    with FakeServer(*faults, keep_bodies=True) as server:
        async with server_model(server) as model:
            patient = RetryingModel(model, tries=tries, first_wait=0.001)
            for number in range(requests):
                reply = await patient.ask(make_request(f"question {number}"))
                assert parse_output(reply.text, OutputOfAny) is not None
        return [form(body) for body in server.bodies]


class OutputOfAny(Message):
    """Whatever the reply holds."""

    role: str = "user"  # type: ignore[assignment]
    content: str = ""
    model_config = {"extra": "allow"}


async def test_a_server_that_has_everything_is_asked_in_the_firmest_form() -> None:
    with FakeServer(keep_bodies=True) as server:
        await ask_server(server, make_request(max_tokens=7))
        (body,) = server.bodies
    assert body["response_format"]["json_schema"]["strict"] is True
    assert body["response_format"]["json_schema"]["name"] == "general_expert"
    assert (body["temperature"], body["max_tokens"]) == (0.0, 7)
    assert [message["role"] for message in body["messages"]] == ["system", "user"]


async def test_without_json_schema_the_schema_is_written_into_the_prompt_and_json_mode_asked_for() -> (
    None
):
    assert await forms_after("no-json-schema", requests=2) == [
        "json_schema",
        "json_object",
        "json_object",
    ]


async def test_without_json_mode_either_plain_text_is_asked_for() -> None:
    forms = await forms_after("no-json-schema", "no-json-mode", requests=2)
    assert forms == ["json_schema", "json_object", "text", "text"]


async def test_a_server_that_crashes_on_json_schema_is_asked_in_json_mode_after_its_second_crash() -> (
    None
):
    """As llama-cpp-python's server, which answers 500 instead of refusing."""
    forms = await forms_after("no-json-schema-500", requests=2)
    assert forms == ["json_schema", "json_schema", "json_object", "json_object"]


async def test_a_server_that_crashes_on_both_is_asked_for_text() -> None:
    with FakeServer("no-json-schema-500", "no-json-mode", keep_bodies=True) as server:
        async with server_model(server) as model:
            await RetryingModel(model, first_wait=0.001).ask(make_request())
        assert [form(body) for body in server.bodies][-2:] == ["json_object", "text"]


async def test_one_passing_500_weakens_nothing() -> None:
    assert await forms_after("500,first=1", requests=2) == ["json_schema"] * 4


async def test_a_server_that_has_answered_in_a_form_is_held_to_it_through_any_number_of_crashes() -> (
    None
):
    with FakeServer("500,only=decision,first=3", keep_bodies=True) as server:
        async with server_model(server) as model:
            patient = RetryingModel(model, first_wait=0.001)
            await patient.ask(make_request("proves the form"))
            await patient.ask(make_request(schema_name="decision"))
        assert {form(body) for body in server.bodies} == {"json_schema"}
        assert server.count == 5


async def test_a_server_that_always_crashes_is_given_up_in_every_form() -> None:
    with FakeServer("500,always", keep_bodies=True) as server:
        async with server_model(server) as model:
            for _ in range(2):
                with pytest.raises(TransientError, match="HTTP 500"):
                    await model.ask(make_request())
        assert {form(body) for body in server.bodies} == {
            "json_schema",
            "json_object",
            "text",
        }


@pytest.mark.parametrize(
    ("gap", "word"),
    [
        ("no-temperature", "temperature"),
        ("no-max-tokens", "max_tokens"),
        ("no-system-role", "system"),
    ],
)
async def test_what_a_server_refuses_is_left_out_from_then_on(
    gap: str, word: str
) -> None:
    """Reasoning models take no temperature and want max_completion_tokens; some templates have no system role."""
    with FakeServer(gap, keep_bodies=True) as server:
        async with server_model(server) as model:
            for number in range(3):
                await model.ask(make_request(f"question {number}", max_tokens=9))
        said = [
            *server.bodies[0],
            *(message["role"] for message in server.bodies[0]["messages"]),
        ]
        assert word in said
        for body in server.bodies[1:]:
            assert word not in [
                *body,
                *(message["role"] for message in body["messages"]),
            ]
        assert server.count == 4


async def test_a_server_may_lack_everything_at_once() -> None:
    gaps = (
        "no-json-schema",
        "no-json-mode",
        "no-temperature",
        "no-max-tokens",
        "no-system-role",
        "no-usage",
    )
    with FakeServer(*gaps, keep_bodies=True) as server:
        async with server_model(server) as model:
            await model.ask(make_request(max_tokens=9))
            asked = server.count
            await model.ask(make_request("another", max_tokens=9))
        assert server.count == asked + 1
        assert set(server.bodies[-1]) == {"model", "messages", "max_completion_tokens"}


async def test_prose_learns_too_and_is_never_given_a_schema() -> None:
    with FakeServer("no-temperature", keep_bodies=True) as server:
        async with server_model(server) as model:
            for number in range(2):
                await model.ask(make_request(f"question {number}", output_schema=None))
        assert [("temperature" in body, form(body)) for body in server.bodies] == [
            (True, "text"),
            (False, "text"),
            (False, "text"),
        ]


async def test_what_one_model_lacks_is_not_held_against_another() -> None:
    with FakeServer("no-temperature", keep_bodies=True) as server:
        async with server_model(server) as model:
            await model.ask(make_request(model="one"))
            await model.ask(make_request(model="two"))
        assert [(body["model"], "temperature" in body) for body in server.bodies] == [
            ("one", True),
            ("one", False),
            ("two", True),
            ("two", False),
        ]


async def test_many_first_questions_at_once_all_find_their_form() -> None:
    with FakeServer("no-json-schema", "no-temperature") as server:
        async with server_model(server) as model:
            replies = await asyncio.gather(
                *(model.ask(make_request(f"question {number}")) for number in range(10))
            )
    assert len({reply.text for reply in replies}) > 1


async def test_whoever_learns_of_a_refusal_late_still_finds_the_form_that_works() -> (
    None
):
    """The slow question's refusal arrives when the quick one has long been answered in another form."""
    quick_is_done = asyncio.Event()
    server = FakeModel(Options(faults=("no-json-schema",)))

    async def handle(request: httpx2.Request) -> httpx2.Response:
        body = request.content
        answer, _ = server.answer(HttpRequest("POST", "/v1/chat/completions", body))
        if b"slow" in body:
            await quick_is_done.wait()
        return httpx2.Response(answer.status, content=answer.body)

    transport = httpx2.MockTransport(handle)
    model = ServerModel("http://server/v1", API_KEY, transport=transport)
    slow = asyncio.create_task(model.ask(make_request("slow")))
    await asyncio.sleep(0)
    await model.ask(make_request("quick"))
    quick_is_done.set()
    assert (await slow).finish is FinishReason.COMPLETE


async def test_a_refusal_of_something_else_is_not_answered_with_weaker_forms() -> None:
    with FakeServer("400-other") as server:
        with pytest.raises(ModelError):
            await ask_server(server)
        assert server.count == 1


def test_without_a_system_role_the_instructions_head_the_first_user_turn() -> None:
    said = Dialect(system_role=False).arguments(make_request("the case"))["messages"]
    assert said == [{"role": "user", "content": "Judge.\n\nthe case"}]


def test_below_text_there_is_no_weaker_structure() -> None:
    assert Dialect(structure=StructuredOutputMode.TEXT).with_weaker_structure() is None
    assert (
        Dialect(structure=StructuredOutputMode.TEXT).fallback_for(
            "no response_format here", structured=True
        )
        is None
    )
