"""`archqa cache info|clear`: the cache of model replies."""

from typing import Annotated

import typer

from archqa.cli.console import console, print_json
from archqa.cli.options import JsonOption, command_settings
from archqa.runs.reply_cache import open_cache

app = typer.Typer(help="The cache of model replies.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """The cache of model replies."""


@app.command("info")
def info(as_json: JsonOption = False) -> None:
    """Show where the cache is, its size, and the models whose replies it has.

    Example:
      archqa cache info
    """
    settings = command_settings()
    with open_cache(settings) as cache:
        stats = cache.stats()
    if as_json:
        print_json({"path": settings.cache.location, **stats._asdict()})
        return
    size = f"{stats.size / 2**20:.1f} MiB of {settings.cache.gib:g} GiB"
    console.print(f"{settings.cache.location}: {stats.replies} replies, {size}")
    for model, count in stats.by_model.items():
        console.print(f"  {model}: {count}")


@app.command("clear")
def clear(
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")
    ] = False,
) -> None:
    """Delete every reply; asking the same again costs the same again.

    Example:
      archqa cache clear --yes
    """
    with open_cache(command_settings()) as cache:
        if not yes:
            typer.confirm(f"Delete {len(cache)} replies?", abort=True)
        console.print(f"{cache.clear()} replies deleted")
