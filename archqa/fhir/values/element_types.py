"""Whether the elements of a resource have the types that FHIR R4 gives them.

What reads a resource later relies on it: an element that is there has its type, its numbers are
finite, and its times can be converted to UTC. Elements that R4 does not have are not looked at.
"""

import sys
from datetime import UTC, datetime
from typing import Any

from archqa.fhir.record import NOT_CONVERTED
from archqa.fhir.values.resource_types import element_types

_NUMBERS = frozenset(("Decimal", "Integer", "PositiveInt", "UnsignedInt"))
_TIMES = frozenset(("Date", "DateTime", "Instant"))
_ENDS_OF_TIME = ("0001-01-01", "9999-12-31")
"""The days on which a zone may lead out of the years that Python has."""


def malformed_element(resource: dict[str, Any]) -> str:
    """Return the path of an element that has not its type, such as `code.coding`; "" if all have.

    A resource that was not converted to R4 as a whole (`NOT_CONVERTED`) has other types.
    """
    malformed = _malformed_part(resource, str(resource.get("resourceType")))
    if malformed and _malformed_part(resource.get("meta"), "Meta") is None:
        tags = resource["meta"].get("tag") or ()
        if any(tag and tag.get("system") == NOT_CONVERTED for tag in tags):
            return ""
    return malformed or ""


def is_well_formed(resource: dict[str, Any]) -> bool:
    """Whether every element of a resource has its type."""
    return not malformed_element(resource)


def _malformed_part(value: Any, type_name: str) -> str | None:
    """Return the path within a value of what has not its type, "" for the value itself; else None."""
    if type_name == "Resource" and isinstance(value, dict):
        type_name = str(value.get("resourceType"))
    types = element_types(type_name)
    if types is None:
        return None if _is_primitive(value, type_name) else ""
    if not isinstance(value, dict):
        return ""
    for member, content in value.items():
        element = types.get(member)
        if element is None or content is None:
            continue
        if isinstance(content, list) != element.is_list:
            return str(member)
        for item in content if element.is_list else (content,):
            # Lists of primitive values have null where there is only an extension.
            malformed = None if item is None else _malformed_part(item, element.name)
            if malformed is not None:
                return f"{member}.{malformed}".rstrip(".")
    return None


def _is_primitive(value: Any, type_name: str) -> bool:
    if type_name == "Boolean":
        return isinstance(value, bool)
    if type_name in _NUMBERS:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and abs(value) <= sys.float_info.max
    if not isinstance(value, str):
        return False
    if type_name not in _TIMES or not value.startswith(_ENDS_OF_TIME):
        return True
    try:
        time = datetime.fromisoformat(value)
        time.replace(tzinfo=time.tzinfo or UTC).astimezone(UTC)
    except OverflowError:
        return False
    except ValueError:
        # A text that is no time is read as such.
        return True
    return True
