"""archqa's benchmarks as tasks of Inspect (inspect_ai), with archqa's pipelines and scorers.

    inspect eval archqa/archehr_2025 --model openai/gpt-4.1 -T cases=data/dev.json

The extra `inspect` installs Inspect. Raises `MissingExtra` without it.
"""

from importlib.util import find_spec

from archqa.errors import MissingExtra

if find_spec("inspect_ai") is None:
    raise MissingExtra("Inspect", "inspect")
