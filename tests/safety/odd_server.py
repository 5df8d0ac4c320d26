"""A model server whose completions are changed before they are sent."""

import json
from collections.abc import Callable
from typing import Any

from tests.fakes.server import FakeServer
from tests.fakes.wire import HttpRequest, HttpResponse

Change = Callable[[dict[str, Any]], object]


class OddServer(FakeServer):
    """The fake server; `change` alters each completion, which is sent as ASCII JSON."""

    def __init__(self, change: Change, **options: Any) -> None:
        super().__init__(**options)
        model = self._service.model
        answer_properly = model.answer

        def answer(request: HttpRequest) -> tuple[HttpResponse, float]:
            response, delay = answer_properly(request)
            content = json.loads(response.body)
            change(content)
            return response._replace(body=json.dumps(content).encode()), delay

        model.answer = answer  # type: ignore[method-assign]
