"""`archqa cache info|clear`: the cache of model replies."""

from typing import Annotated

import typer

from archqa.cli.console import console, print_json
from archqa.runs.backends import open_cache
from archqa.settings import load_settings

app = typer.Typer(help="The cache of model replies.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """The cache of model replies."""


@app.command("info")
def info(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Where the cache lies, how much it holds, and of which models.

    Example:
      archqa cache info
    """
    settings = load_settings()
    with open_cache(settings) as cache:
        held = cache.stats()
    if as_json:
        print_json({"path": settings.cache.location, **held._asdict()})
        return
    console.print(
        f"{settings.cache.location}: {held.replies} replies, {held.size / 2**20:.1f} MiB of {settings.cache.gib:g} GiB"
    )
    for model, count in held.by_model.items():
        console.print(f"  {model}: {count}", markup=False)


@app.command("clear")
def clear(yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False) -> None:
    """Drop every reply: what is asked again is paid again.

    Example:
      archqa cache clear --yes
    """
    with open_cache(load_settings()) as cache:
        if not yes:
            typer.confirm(f"Drop {len(cache)} replies?", abort=True)
        console.print(f"{cache.clear()} replies dropped")
