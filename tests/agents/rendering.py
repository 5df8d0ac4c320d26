"""A rendered prompt, kept as a file, so that a change of its words is seen."""

import os
from pathlib import Path

from archqa.core.value import FrozenModel
from archqa.llm.prompts import default_prompts

SNAPSHOTS = Path(__file__).parent / "snapshots"
UPDATING = bool(os.environ.get("ARCHQA_UPDATE_SNAPSHOTS"))


def check_snapshot(prompt: str, task: FrozenModel) -> None:
    """The prompt of a task is what was kept of it; `make snapshots` keeps it anew."""
    messages = default_prompts().render(prompt, dict(task))
    text = (
        "\n\n".join(
            f"=== {message.role} ===\n{message.content}" for message in messages
        )
        + "\n"
    )
    kept = SNAPSHOTS / f"{prompt.replace('/', '-')}.txt"
    if UPDATING:
        kept.write_text(text, encoding="utf-8")
    assert text == kept.read_text(encoding="utf-8")
