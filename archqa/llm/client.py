"""A model behind an OpenAI-compatible server (`POST /chat/completions`), spoken to through the openai package.

Source of the protocol: the OpenAI API reference, "Chat completions" and "Structured outputs". Other servers
(vLLM, Ollama, llama.cpp, Azure's v1 endpoint) speak parts of it; see `dialect`.
"""

import time
from collections import Counter
from collections.abc import Callable

import openai
from openai.types.chat import ChatCompletion

from archqa.core.usage import Usage
from archqa.errors import ArchqaError, AuthenticationFailed, ContextTooLong, ModelError, ModelNotFound
from archqa.llm.base import Finish, Reply, Request
from archqa.llm.dialect import Dialect
from archqa.llm.prices import Price

TRANSIENT = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_FINISH = {"length": Finish.LENGTH, "content_filter": Finish.FILTERED}


class Transient(Exception):
    """The server may do it if asked again; `retry_after` is its own word on when, in seconds."""

    def __init__(self, why: str, retry_after: float | None = None) -> None:
        super().__init__(why)
        self.retry_after = retry_after


class ServerModel:
    """Asks one server, once. Learns per model what the server cannot do; raises `Transient` for what may pass."""

    def __init__(self, client: openai.AsyncOpenAI, price_of: Callable[[str], Price | None] = lambda _: None) -> None:
        self._client = client
        self._price_of = price_of
        self._dialects: dict[str, Dialect] = {}
        self._proven: set[str] = set()
        self._crashes: Counter[str] = Counter()

    async def ask(self, request: Request) -> Reply:
        """Answer one request, weakening the dialect as long as the server objects to it."""
        dialect: Dialect | None = self._dialects.get(request.model, Dialect())
        while dialect is not None:
            began = time.monotonic()
            try:
                completion = await self._client.chat.completions.create(**dialect.arguments(request))
            except openai.APIStatusError as error:
                dialect = self._after_refusal(error, dialect, request)
            except openai.APIConnectionError as error:
                raise Transient(_cause(error)) from None
            except (openai.APIError, ValueError, TypeError) as error:
                raise Transient(f"the reply is not a chat completion ({type(error).__name__})") from None
            else:
                self._learn(request, dialect)
                return self._reply(completion, request, time.monotonic() - began)
        raise ModelError(f"{self._client.base_url} understands no form of the request.")

    def _learn(self, request: Request, dialect: Dialect) -> None:
        """A form that worked is kept; of several that did, the firmest."""
        if request.output_schema is None:
            return
        known = self._dialects.get(request.model) if request.model in self._proven else None
        if known is None or dialect.structure >= known.structure:
            self._dialects[request.model] = dialect
        self._proven.add(request.model)

    def _after_refusal(self, error: openai.APIStatusError, dialect: Dialect, request: Request) -> Dialect:
        """A weaker dialect to try at once; raises what the refusal means otherwise."""
        words = _words(error)
        structured = request.output_schema is not None and request.model not in self._proven
        if error.status_code in {400, 404, 415, 422, 501} and "context" not in words:
            weaker = dialect.weaker(words, structured=structured)
            if weaker is not None:
                return weaker
        if error.status_code == 500 and structured and self._crashed_before(request):
            weaker = dialect.less_structured()
            if weaker is not None:
                return weaker
        raise _meaning(error, words, request.model, str(self._client.base_url))

    def _crashed_before(self, request: Request) -> bool:
        """Servers without json_schema may crash on it instead of refusing: twice on one request is no passing fault."""
        self._crashes[request.digest] += 1
        return self._crashes[request.digest] > 1

    def _reply(self, completion: ChatCompletion, request: Request, seconds: float) -> Reply:
        if not isinstance(completion, ChatCompletion) or not completion.choices:
            raise Transient("the reply holds no choice")
        choice = completion.choices[0]
        text = choice.message.content or ""
        refusal = getattr(choice.message, "refusal", None)
        finish = _FINISH.get(choice.finish_reason or "", Finish.COMPLETE)
        if refusal:
            finish, text = Finish.REFUSED, refusal
        elif not text.strip() and finish is Finish.COMPLETE:
            finish = Finish.EMPTY
        usage = self._usage(completion, request.model, seconds)
        return Reply(text=text, finish=finish, usage=usage, served_by=completion.model or "")

    def _usage(self, completion: ChatCompletion, model: str, seconds: float) -> Usage:
        counted = completion.usage
        if counted is None:
            return Usage(calls=1, cost_usd=None, seconds=seconds)
        details = counted.prompt_tokens_details
        cached = (details.cached_tokens or 0) if details else 0
        price = self._price_of(model)
        cost = price.cost(counted.prompt_tokens, cached, counted.completion_tokens) if price else None
        return Usage(
            calls=1,
            prompt_tokens=counted.prompt_tokens or 0,
            cached_prompt_tokens=cached,
            completion_tokens=counted.completion_tokens or 0,
            cost_usd=cost,
            seconds=seconds,
        )


def _words(error: openai.APIStatusError) -> str:
    return f"{error.message} {error.param or ''} {error.code or ''}".lower()


def _cause(error: openai.APIConnectionError) -> str:
    return "the server did not answer in time" if isinstance(error, openai.APITimeoutError) else "the connection failed"


def _meaning(error: openai.APIStatusError, words: str, model: str, url: str) -> Exception:
    """What a status means for whoever must act. Server texts can quote the prompt, so none is passed on."""
    status = error.status_code
    if status in {401, 403}:
        return AuthenticationFailed(f"{url} refuses the key (HTTP {status}).\nSet OPENAI_API_KEY to a key it accepts.")
    if status == 413 or (status == 400 and "context" in words):
        return ContextTooLong(f"The prompt does not fit {model}'s context window.")
    if status == 404:
        return ModelNotFound(f"{url} does not know the model {model!r}.\nList its models with: archqa list models")
    if status in TRANSIENT or status >= 500:
        return Transient(f"HTTP {status}", _retry_after(error))
    return _refused_request(status, error.code, url)


def _refused_request(status: int, code: str | None, url: str) -> ArchqaError:
    named = f" ({code})" if code else ""
    return ModelError(
        f"{url} refuses the request with HTTP {status}{named}.\nSee `archqa doctor` for what it supports."
    )


def _retry_after(error: openai.APIStatusError) -> float | None:
    try:
        return max(0.0, float(error.response.headers["retry-after"]))
    except (KeyError, ValueError):
        return None
