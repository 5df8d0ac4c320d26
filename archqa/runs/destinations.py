"""Where a run sends record text and queries: said before the first request, kept in `run.json`."""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from archqa.errors import CallerError
from archqa.safety.server_urls import (
    OPENAI_BASE_URL,
    fhir_server_problem,
    is_loopback_url,
    is_server_url,
    proxy_for,
    server_identity,
)
from archqa.safety.text import printable
from archqa.settings import Settings

if TYPE_CHECKING:
    from archqa.tasks.pipeline import Pipeline


class Destination(NamedTuple):
    """A host with its port, and the proxy on the way; neither has a user name or a password.

    A FHIR server that holds the record gets queries; a model server gets record text.
    """

    host: str
    proxy: str | None = None
    on_this_machine: bool = False
    gets_queries: bool = False

    @property
    def place(self) -> str:
        """The host in words: `api.openai.com through the proxy proxy.example:3128`."""
        if self.proxy:
            return f"{self.host} through the proxy {self.proxy}"
        if self.on_this_machine:
            return f"{self.host} on this machine"
        return self.host

    def __str__(self) -> str:
        """As in `run.json`."""
        return f"queries to {self.place}" if self.gets_queries else self.place


Announce = Callable[[Sequence[Destination]], None]
"""Called before the first request with all destinations of a run."""


class Announcer:
    """Says where record text goes, once for equal destinations; by default as a log warning.

    Unless logging is set up, that is one line on stderr. A quiet announcer still says that text
    leaves this machine.
    """

    def __init__(
        self, say: Callable[[str], object] | None = None, *, quiet: bool = False
    ) -> None:
        self._say = say or logging.getLogger("archqa").warning
        self._quiet = quiet
        self._announced: set[str] = set()

    def __call__(self, destinations: Sequence[Destination]) -> None:
        """Print the line."""
        stays_here = all(destination.on_this_machine for destination in destinations)
        if not destinations or (self._quiet and stays_here):
            return
        sentence = describe(destinations)
        if sentence not in self._announced:
            self._announced.add(sentence)
            self._say(sentence)


def describe(destinations: Sequence[Destination]) -> str:
    """Return `record text goes to …; queries go to …`."""
    text: list[str] = []
    queries: list[str] = []
    for destination in destinations:
        (queries if destination.gets_queries else text).append(destination.place)
    parts = []
    if text:
        parts.append(f"record text goes to {' and '.join(text)}")
    if queries:
        parts.append(f"queries go to {' and '.join(queries)}")
    return "; ".join(parts)


def run_destinations(
    settings: Settings, pipeline: "Pipeline"
) -> tuple[Destination, ...]:
    """Return each model server that a run of a pipeline may ask, its own backends, its FHIR server.

    Raises `CallerError` for a record's address that is no URL or holds a secret.
    """
    from archqa.runs.model_server import model_agents, model_endpoint  # Slow to import.

    destinations = []
    for agent in model_agents(settings, pipeline):
        destinations.append(model_server(model_endpoint(settings, agent).base_url))
    for name in settings.plug_in_backends(pipeline.agents):
        destinations.append(Destination(f"the backend {name}"))
    if settings.record is not None and is_server_url(settings.record):
        problem = fhir_server_problem(settings.record)
        if problem:
            raise CallerError(f"The FHIR server's address {problem}.")
        destinations.append(_destination(settings.record)._replace(gets_queries=True))
    return tuple(dict.fromkeys(destinations))


def model_server(base_url: str | None) -> Destination:
    """The destination of what is sent to a model server; None stands for api.openai.com."""
    return _destination(base_url or OPENAI_BASE_URL)


def _destination(url: str) -> Destination:
    proxy = proxy_for(url)
    return Destination(
        host=_host(url),
        proxy=_host(proxy) if proxy else None,
        on_this_machine=is_loopback_url(url) and proxy is None,
    )


def _host(url: str) -> str:
    """The host and port of a URL, without user name and password."""
    return printable(urlsplit(server_identity(url)).netloc)
