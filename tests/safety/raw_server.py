"""A server on loopback that answers as a test says, and keeps what it was sent."""

import threading
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple, Self

MIB = 2**20


class Request(NamedTuple):
    """What a client sent. Header names are lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class Response(NamedTuple):
    """What it is answered. Without a length, `parts` may go on until the client hangs up."""

    status: int = 200
    parts: Iterable[bytes] = ()
    headers: tuple[tuple[str, str], ...] = ()


Answer = Callable[[Request], Response]


class RawServer:
    """Serves in threads for as long as a `with` lasts. `sent` counts bytes of bodies."""

    def __init__(self, answer: Answer, port: int = 0) -> None:
        self.answer = answer
        self.requests: list[Request] = []
        self.sent = 0
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def _serve(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request(
                    self.command, self.path, headers, self.rfile.read(length)
                )
                owner.requests.append(request)
                owner._write(self, owner.answer(request))

            do_GET = do_POST = do_DELETE = do_CONNECT = _serve  # noqa: N815

            def log_message(self, *_: object) -> None:
                """Nothing on stderr."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def _write(self, handler: BaseHTTPRequestHandler, response: Response) -> None:
        handler.send_response(response.status)
        for name, value in response.headers:
            handler.send_header(name, value)
        handler.end_headers()
        try:
            for part in response.parts:
                handler.wfile.write(part)
                self.sent += len(part)
        except OSError:
            pass  # The client has read enough.
        handler.close_connection = True

    def __enter__(self) -> Self:
        threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True
        ).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def redirect_to(url: str, status: int = 307) -> Answer:
    """Answer every request with a redirect."""
    return lambda _: Response(status, headers=(("location", url),))


def json_response(text: str, *headers: tuple[str, str]) -> Response:
    """A reply of JSON."""
    return Response(
        200, (text.encode(),), (("content-type", "application/json"), *headers)
    )


def endless(_: Request) -> Response:
    """A reply that ends after 32 MiB, if the client reads so far."""
    return Response(parts=(b" " * MIB for _ in range(32)))
