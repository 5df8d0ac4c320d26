"""A small model in this process: replies that fit the schema, the same for the same prompt."""

import json

from archqa.llm.base import Request
from archqa.llm.scripted import ScriptedModel
from tests.fakes.replies import content_for


def obedient() -> ScriptedModel:
    return ScriptedModel(reply)


def reply(request: Request) -> str:
    prompt = "\n".join(message.content for message in request.messages)
    content = content_for(request.output_schema, prompt, prompt)
    return content if isinstance(content, str) else json.dumps(content)
