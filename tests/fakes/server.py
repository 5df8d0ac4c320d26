"""A fake OpenAI-compatible server on loopback: `POST /v1/chat/completions`, `GET /v1/models`.

In a thread for unit tests (`FakeServer`), in its own process for measurements and kills (`FakeServerProcess`), by hand:

    python -m tests.fakes.server --port 8000 --latency 0.5 --sigma 0.5 --fault 500@0.3 --fault refusal@0.1,always

`GET /stats` tells what was asked of it.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

from tests.fakes.model import FakeModel, Options
from tests.fakes.wire import Connection, HttpRequest, HttpResponse

ROOT = Path(__file__).resolve().parents[2]


class Stats(NamedTuple):
    """What was asked of a server. `repeated` counts requests that had come before, to the byte."""

    asked: int
    in_flight: int
    max_in_flight: int
    repeated: int
    agents: dict[str, int]
    outcomes: dict[str, int]
    cpu_seconds: float
    delay_seconds: float = 0.0


class Service:
    """The server inside a running event loop."""

    def __init__(self, options: Options) -> None:
        self.model = FakeModel(options)
        self._drip = options.drip_seconds
        self._in_flight = 0
        self._max_in_flight = 0

    async def listen(self, port: int = 0) -> asyncio.Server:
        """Listen on loopback; port 0 takes any free one."""
        loop = asyncio.get_running_loop()
        return await loop.create_server(
            lambda: Connection(self._handle, self._drip),
            "127.0.0.1",
            port,
            backlog=1024,
        )

    @property
    def stats(self) -> Stats:
        """What was asked so far."""
        requests = self.model.seen
        return Stats(
            asked=len(requests),
            in_flight=self._in_flight,
            max_in_flight=self._max_in_flight,
            repeated=sum(request.repeated for request in requests),
            agents=dict(Counter(request.agent for request in requests)),
            outcomes=dict(Counter(request.outcome for request in requests)),
            cpu_seconds=time.process_time(),
            delay_seconds=sum(request.delay for request in requests),
        )

    async def _handle(self, request: HttpRequest) -> HttpResponse:
        if request.path == "/stats":
            return HttpResponse(200, json.dumps(self.stats._asdict()).encode())
        self._in_flight += 1
        self._max_in_flight = max(self._max_in_flight, self._in_flight)
        try:
            answer, delay = self.model.answer(request)
            if delay:
                await asyncio.sleep(delay)
            return answer
        finally:
            self._in_flight -= 1


class FakeServer:
    """The server in a thread of this process, for as long as a `with` lasts."""

    def __init__(self, *faults: str, port: int = 0, **options: Any) -> None:
        self._service = Service(Options(faults=faults, **options))
        self._port = port
        self._up = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._run()), daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._up.wait(5)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._down.set)
        self._thread.join(5)

    @property
    def count(self) -> int:
        """Chat requests so far, refused ones and repetitions included."""
        return len(self._service.model.seen)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """Every chat request's body, where `keep_bodies` is set."""
        return self._service.model.bodies

    @property
    def requests(self) -> Stats:
        """What was asked, summed up."""
        return self._service.stats

    @property
    def max_in_flight(self) -> int:
        """The most requests that were under way at once."""
        return self._service.stats.max_in_flight

    async def _run(self) -> None:
        self._loop, self._down = asyncio.get_running_loop(), asyncio.Event()
        server = await self._service.listen(self._port)
        self.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        self._up.set()
        await self._down.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()


class FakeServerProcess:
    """The server in its own process: its work is not the client's, and it outlives a client that is killed."""

    def __init__(self, *faults: str, **options: Any) -> None:
        self._arguments = [f"--fault={fault}" for fault in faults]
        self._arguments += [
            f"--{name.replace('_', '-')}={value}" for name, value in options.items()
        ]

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.fakes.server", *self._arguments]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.base_url = self._process.stdout.readline().strip()
        assert self.base_url, "the fake server did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(5)
        assert self._process.stdout is not None
        self._process.stdout.close()

    @property
    def count(self) -> int:
        """Chat requests so far."""
        return self.requests.asked

    @property
    def requests(self) -> Stats:
        """What was asked, summed up."""
        with urllib.request.urlopen(
            self.base_url.removesuffix("/v1") + "/stats", timeout=10
        ) as reply:
            return Stats(**json.load(reply))

    @property
    def max_in_flight(self) -> int:
        """The most requests that were under way at once."""
        return self.requests.max_in_flight


async def _serve(options: Options, port: int) -> None:
    server = await Service(options).listen(port)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)  # noqa: T201
    await server.serve_forever()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fakes.server",
        description="A fake OpenAI-compatible server.",
    )
    parser.add_argument(
        "--port", type=int, default=0, help="0 takes any free one; the URL is printed"
    )
    parser.add_argument(
        "--latency",
        type=float,
        default=0.0,
        help="seconds; the median where --sigma is given",
    )
    parser.add_argument(
        "--sigma",
        type=float,
        default=0.0,
        help="of the log-normal latency; 0 is constant",
    )
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        help="name[@rate][,always][,first=N][,only=AGENT]",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        help="served; any model is if none is named",
    )
    parser.add_argument(
        "--retry-after",
        type=float,
        default=0.0,
        help="seconds that 429-retry-… ask for",
    )
    parser.add_argument(
        "--drip",
        dest="drip_seconds",
        type=float,
        default=0.01,
        help="seconds between the bytes of slow-drip",
    )
    return parser.parse_args()


def main() -> None:
    """Serve until stopped."""
    asked = vars(_arguments())
    port, faults, models = (
        asked.pop("port"),
        tuple(asked.pop("fault")),
        tuple(asked.pop("model")),
    )
    with suppress(KeyboardInterrupt):  # Ctrl-C is how it is meant to end.
        asyncio.run(_serve(Options(faults=faults, models=models, **asked), port))


if __name__ == "__main__":
    main()
