"""How to start a model server of one's own, in a line each. docs/own-model.md tells it in full."""

from typing import NamedTuple


class LocalServer(NamedTuple):
    """A server program: the command that starts it, and the base URL that it then has."""

    name: str
    start: str
    base_url: str


LOCAL_SERVERS = (
    LocalServer(
        "Ollama",
        "OLLAMA_CONTEXT_LENGTH=16384 ollama serve",
        "http://127.0.0.1:11434/v1",
    ),
    LocalServer(
        "llama.cpp",
        "llama-server -m MODEL.gguf -c 16384 -np 1",
        "http://127.0.0.1:8080/v1",
    ),
    LocalServer(
        "vLLM",
        "vllm serve FOLDER --host 127.0.0.1 --max-model-len 16384",
        "http://127.0.0.1:8000/v1",
    ),
)

HOW_TO_START = (
    "A model on this machine, by one of three programs (docs/own-model.md):",
    *(f"  {server.name:10} {server.start:57} {server.base_url}" for server in LOCAL_SERVERS),
    "Then: archqa list models --base-url URL",
    "      archqa doctor --base-url URL --model NAME",
    "      archqa predict mini --base-url URL --model NAME",
)
"""Lines for somebody who has no model server."""
