"""A listener on loopback that counts who connects, for tests that nothing may be sent."""

import socket
import threading
from typing import Self


class Trap:
    """Accepts connections, counts them and closes them at once."""

    def __init__(self) -> None:
        self.connections = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()

    @property
    def base_url(self) -> str:
        """The base URL of a model server that would be here."""
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}/v1"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            connection.close()
