"""A web server for the report's pages, reviews, and questions (extra `web`)."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from archqa.core.public_names import imported_on_use
from archqa.errors import MissingExtra

if TYPE_CHECKING:
    from archqa.web.app import create_app
    from archqa.web.site import WebConfig

# Starlette reads forms with python-multipart.
if find_spec("fastapi") is None or find_spec("python_multipart") is None:
    raise MissingExtra("The web part (FastAPI)", "web")

__all__ = ["WebConfig", "create_app"]

__getattr__ = imported_on_use(__name__, {"app": __all__})
