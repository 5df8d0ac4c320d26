"""A web server for the report's pages, reviews, and questions (extra `web`)."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from archqa.errors import MissingExtra

if TYPE_CHECKING:
    from archqa.web.app import create_app
    from archqa.web.site import WebConfig

# Starlette reads forms with python-multipart.
if find_spec("fastapi") is None or find_spec("python_multipart") is None:
    raise MissingExtra("The web part (FastAPI)", "web")

__all__ = ["WebConfig", "create_app"]


def __getattr__(name: str) -> object:
    """Import a public name when it is used first."""
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module 'archqa.web' has no attribute {name!r}")
    return getattr(import_module("archqa.web.app"), name)
