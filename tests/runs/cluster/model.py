"""A small model in this process: replies that fit the schema, the same for the same prompt."""

import json

from archqa.llm.model import Request
from archqa.llm.scripted import ScriptedModel
from tests.fakes.replies import reply_content


def obedient() -> ScriptedModel:
    return ScriptedModel(reply)


def reply(request: Request) -> str:
    prompt = "\n".join(message.content for message in request.messages)
    content = reply_content(request.output_schema, prompt, prompt)
    return content if isinstance(content, str) else json.dumps(content)
