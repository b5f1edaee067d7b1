"""What this room needs of the engine's asynchronous façade, and nothing more.

`engine.service.EngineService` fulfils it; tests put a scripted service in its place.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

from leeway.acceptance.base import Law
from leeway.core.config import EngineConfig
from leeway.core.receipt import Tally
from leeway.core.types import Acceptance, Grammar, OutputDelta, Request
from leeway.text.tool_calls.dialect import Dialect

ServiceState = Literal["loading", "ready", "draining", "failed", "stopped"]


class ServedTokenizer(Protocol):
    """Turns prompts into ids, and ids into text."""

    @property
    def vocab_size(self) -> int:
        """Number of token ids."""
        ...

    def encode(self, text: str, *, add_special: bool = True) -> list[int]:
        """Return the ids of a text."""
        ...

    def decode(self, token_ids: Iterable[int], *, with_special: bool = False) -> str:
        """Return the text of the ids; special tokens are left out, or named."""
        ...

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes of a token; empty for special ones."""
        ...

    def token_text(self, token_id: int) -> str | None:
        """Return the vocabulary's own name of an id."""
        ...


class ServedTemplate(Protocol):
    """Turns a conversation into one text."""

    @property
    def tool_dialect(self) -> Dialect | None:
        """How the model writes tool calls, if it does."""
        ...

    @property
    def reasons(self) -> bool:
        """Whether the model may think aloud before it answers."""
        ...

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        **extra: object,
    ) -> str:
        """Return the prompt of a conversation; `extra` are further variables of the template."""
        ...


class ServedBackend(Protocol):
    """The numbers of a backend that answers and /health report."""

    @property
    def context_len(self) -> int:
        """Most tokens of prompt and answer together."""
        ...

    @property
    def capacity_tokens(self) -> int:
        """Cache slots in all."""
        ...

    @property
    def block_len(self) -> int:
        """Unit in which cache slots are taken."""
        ...

    def describe(self) -> dict[str, str | int | float | bool]:
        """Return the settings in force."""
        ...


class ServedDrafter(Protocol):
    """Who proposes tokens."""

    name: str


class ServedCheck(Protocol):
    """What a check at load found."""

    def describe(self) -> dict[str, str | float | bool]:
        """Return it by name."""
        ...


class ServedParts(Protocol):
    """What a loaded engine is made of."""

    @property
    def model_name(self) -> str:
        """Name under which the model is served."""
        ...

    @property
    def tokenizer(self) -> ServedTokenizer:
        """The target's tokenizer."""
        ...

    @property
    def chat_template(self) -> ServedTemplate:
        """The target's chat template."""
        ...

    @property
    def backend(self) -> ServedBackend:
        """The target's backend."""
        ...

    @property
    def drafter(self) -> ServedDrafter:
        """Who drafts, whatever was asked for."""
        ...

    @property
    def drafter_settings(self) -> Mapping[str, str | int | float | bool]:
        """A draft head's settings in force; empty for other drafters."""
        ...

    @property
    def self_check(self) -> ServedCheck | None:
        """What was found at load, where a check was made."""
        ...


class ServedEngine(Protocol):
    """A loaded engine, to read from."""

    @property
    def parts(self) -> ServedParts:
        """What it is made of."""
        ...

    @property
    def config(self) -> EngineConfig:
        """What it was built from."""
        ...

    @property
    def law(self) -> Law:
        """The configured law."""
        ...

    @property
    def totals(self) -> Mapping[tuple[str, str], Tally]:
        """Tallies of finished requests by (law, drafter)."""
        ...

    def build_law(self, acceptance: Acceptance | None) -> Law:
        """Return a law that can work here. Raises LawError."""
        ...

    def compile_grammar(self, grammar: Grammar) -> None:
        """Compile a grammar ahead of its request; from any thread. Raises RequestError."""
        ...

    def law_of(self, request: Request) -> Law:
        """Return the law that will judge a request. Raises LawError."""
        ...

    def status(self) -> dict[str, Any]:
        """Return load and capacity: `num_requests_running`, `kv_cache_usage` (0 to 1) ..."""
        ...


class Service(Protocol):
    """An engine on a thread of its own."""

    @property
    def state(self) -> ServiceState:
        """Where it stands."""
        ...

    @property
    def error(self) -> Exception | None:
        """Why it failed."""
        ...

    @property
    def engine(self) -> ServedEngine:
        """The engine; only while ready or draining."""
        ...

    @property
    def num_open(self) -> int:
        """Requests whose last delta has not been delivered."""
        ...

    def start(self) -> None:
        """Begin to load the engine, on its own thread."""
        ...

    def drain(self) -> None:
        """Refuse new requests from now on; those that came are finished."""
        ...

    def stop(self, drain_timeout_s: float = 30.0) -> None:
        """Let running requests finish for so long, then cancel what is left and end the thread."""
        ...

    def stream(self, request: Request) -> AsyncGenerator[OutputDelta, None]:
        """Yield the deltas of a request; closing the generator cancels the request.

        Raises:
            RequestError: the request is refused; raised before the first delta.
        """
        ...
