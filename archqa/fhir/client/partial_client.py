"""A server that refuses some types of resources, read for questions: the other types still answer."""

from http import HTTPStatus

from archqa.errors import ArchqaError
from archqa.fhir.client.exchange import requested_type
from archqa.fhir.client.http_client import AccessForbidden, FhirClient, ServerError
from archqa.fhir.record import FhirError, Page, Resource, SearchParams, objects_of
from archqa.fhir.values.urls import parse_search_url
from archqa.safety.server_urls import is_server_url

_REFUSALS = (AccessForbidden, FhirError, ServerError)
_CODES_OF_REFUSALS = frozenset({"invalid", "structure"})
_SEVERITIES_OF_REFUSALS = frozenset({"error", "fatal"})
_OF_PATIENT = frozenset({"patient", "subject"})
_PLAIN_PARAMETERS = _OF_PATIENT | {"_id", "_count"}
"""A search by these alone is refused for its type, not for a parameter."""


class PartialClient(FhirClient):
    """Reads the server of another client; a type that it refuses has no resources.

    `refused` has the reason for each type. Patients must be readable.
    """

    def __init__(self, client: FhirClient) -> None:
        self.__dict__.update(client.__dict__)
        self.refused: dict[str, str] = {}
        self._first_error: ArchqaError | None = None
        self._has_read = False

    def check_any_type_read(self) -> None:
        """Raise the first refusal if the server refused every type that was searched."""
        if self._first_error is not None and not self._has_read:
            raise self._first_error

    def get(self, resource_type: str, resource_id: str) -> Resource | None:
        """Return one resource; None also if its type is refused."""
        if resource_type in self.refused:
            return None
        try:
            return super().get(resource_type, resource_id)
        except _REFUSALS as error:
            self._refuse(resource_type, error)
            return None

    def search(
        self,
        query: str,
        params: SearchParams | None = None,
        *,
        lenient: bool | None = None,
    ) -> Page:
        """Return one page, an empty one of a refused type.

        Raises `FhirError` for a search that the server refuses for its parameters.
        """
        resource_type = requested_type(query.partition("?")[0])
        if resource_type in self.refused:
            return Page(query)
        try:
            page = super().search(query, params, lenient=lenient)
        except _REFUSALS as error:
            if isinstance(error, FhirError) and not is_server_url(query):
                _, pairs = parse_search_url(query, params)
                if self._is_searchable(resource_type, pairs):
                    raise
            self._refuse(resource_type, error)
            return Page(query)
        self._has_read |= resource_type != "Patient"
        for entry in page.entries:
            is_outcome = entry.mode == "outcome"
            for issue in objects_of(entry.resource, "issue") if is_outcome else []:
                if issue.get("severity") in _SEVERITIES_OF_REFUSALS:
                    self.refused[resource_type] = (
                        f"OperationOutcome {issue.get('code')}"
                    )
        return page

    def _is_searchable(self, resource_type: str, pairs: list[tuple[str, str]]) -> bool:
        """Whether a search fails for its parameters: without them, the server answers."""
        if {name for name, _ in pairs} <= _PLAIN_PARAMETERS:
            return False
        plain = [(name, value) for name, value in pairs if name in _OF_PATIENT]
        try:
            super().search(resource_type, [*plain, ("_count", "1")])
        except _REFUSALS:
            return False
        return True

    def _refuse(self, resource_type: str, error: ArchqaError) -> None:
        """Note that a type is refused. Raises the error if it says something else."""
        assert isinstance(error, _REFUSALS)
        is_refusal = (
            not isinstance(error, FhirError) or error.code in _CODES_OF_REFUSALS
        )
        if not is_refusal or resource_type in {"Patient", "-"}:
            raise error
        reason = str(error.status)
        if isinstance(error, FhirError) and error.code == "structure":
            reason = str(error).rstrip(".")
        elif error.status in list(HTTPStatus):
            reason = f"{reason} {HTTPStatus(error.status).phrase}"
        self.refused[resource_type] = reason
        self._first_error = self._first_error or error
