"""The SMART configuration of a server that has a bearer token and no authorization server.

It names no endpoint, no grant and no capability, since there are none: a SMART app learns from it
that it cannot launch here. Source: hl7.org/fhir/smart-app-launch/conformance.html.
"""

import json

from archqa.fhir.server.response import FhirResponse

SMART_PATH = ".well-known/smart-configuration"

_CONFIGURATION: dict[str, list[str]] = {
    "grant_types_supported": [],
    "response_types_supported": [],
    "scopes_supported": [],
    "token_endpoint_auth_methods_supported": [],
    "code_challenge_methods_supported": [],
    "capabilities": [],
}


def smart_configuration() -> FhirResponse:
    """Return the document, which is plain JSON."""
    return FhirResponse(200, json.dumps(_CONFIGURATION), {"content-type": "application/json"})
