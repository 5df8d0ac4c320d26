"""Send a part of a file as a reply, in constant memory, for as long as its client reads."""

import asyncio
from typing import IO, Any

from archqa.fhir.server.response import FilePart
from archqa.safety.local_server import Receive, Send

_BLOCK_SIZE = 2**18
"""Bytes that are in memory at once, with what the network has not taken yet."""


async def send_file(part: FilePart, receive: Receive, send: Send) -> None:
    """Send the body of a reply whose start was sent. Ends early when the client leaves.

    Raises `OSError`, after which the reply is cut off, if the file is gone or shorter.
    """
    watch = asyncio.ensure_future(_wait_until_left(receive))
    try:
        with part.path.open("rb") as file:
            file.seek(part.start)
            await _send_blocks(file, part.end - part.start, watch, send)
    finally:
        watch.cancel()


async def _send_blocks(
    file: IO[bytes], size: int, watch: "asyncio.Future[Any]", send: Send
) -> None:
    left = size
    while left and not watch.done():
        block = await asyncio.to_thread(file.read, min(_BLOCK_SIZE, left))
        if not block:
            raise OSError("The file is shorter than it was.")
        left -= len(block)
        await send({"type": "http.response.body", "body": block, "more_body": left > 0})


async def _wait_until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
