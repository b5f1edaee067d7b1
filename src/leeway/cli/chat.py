"""`leeway chat`: a conversation in the terminal, or line by line in a pipe."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, cast

from cyclopts import Parameter

from leeway.cli.answer import Answer, collect, make_show
from leeway.cli.call import Call, Screen, to_json
from leeway.cli.generate import SHOW_PROVENANCE
from leeway.cli.options import MODEL_NAME, takes_settings
from leeway.cli.receipt_line import receipt_line
from leeway.core.config_values import law_options
from leeway.core.errors import ConfigError, LawError, LeewayError, did_you_mean
from leeway.core.types import Acceptance, OutputDelta

if TYPE_CHECKING:
    from leeway.core.config import Config
    from leeway.llm import LLM

COMMANDS = {
    "/law": "/law NAME key=value ...   judge further answers by this law; /law alone shows it",
    "/receipt": "/receipt                  the last answer's receipt in full",
    "/reset": "/reset                    forget the conversation",
    "/help": "/help                     these commands",
    "/quit": "/quit                     leave (so does end of input)",
}


@takes_settings("sampling", "law", "drafting", "model")
def chat(
    call: Call,
    model_name: Annotated[str | None, MODEL_NAME] = None,
    /,
    *,
    system: Annotated[
        str | None, Parameter(metavar="TEXT", help="A system message before the conversation.")
    ] = None,
    show_provenance: Annotated[bool, SHOW_PROVENANCE] = False,
) -> None:
    """Talk with a model; piped in, every line is one message."""
    config, screen = call.with_model(model_name).resolve()
    from leeway.cli.loading import load_llm

    with load_llm(config, screen) as llm:
        if not llm.engine.parts.chat_template.exists:
            raise ConfigError(
                f"model {config.engine.model!r} has no chat template; use `leeway generate --raw`"
            )
        talk = Conversation(llm, config, screen, system, show_provenance)
        if sys.stdin.isatty() and not screen.is_quiet:
            screen.note(
                f"{llm.engine.parts.model_name}, {talk.describe_law()}. /help for commands."
            )
        for line in _lines():
            if line.strip() == "/quit":
                break
            if line.strip():
                talk.take(line.strip())


def _lines() -> Iterator[str]:
    """Yield what is typed or piped in, until it ends."""
    if not sys.stdin.isatty():
        yield from sys.stdin
        return
    with suppress(ImportError):
        import readline  # noqa: F401  (gives `input` line editing and history)
    while True:
        try:
            yield input("> ")
        except EOFError:
            print(file=sys.stderr)
            return


@dataclass(slots=True)
class Conversation:
    """Messages so far, the law in force and the last answer."""

    llm: LLM
    config: Config
    screen: Screen
    system: str | None
    has_provenance: bool
    acceptance: Acceptance | None = None
    last: Answer | None = None
    messages: list[dict[str, str]] = field(default_factory=list)

    def take(self, line: str) -> None:
        """Do a command or answer a message; a refusal is printed and the conversation goes on."""
        try:
            if line.startswith("/"):
                self._command(*line.split())
            else:
                self._answer(line)
        except LeewayError as error:
            print(f"error: {error.message}", file=sys.stderr)

    def describe_law(self) -> str:
        """Return the law in force with its guarantee."""
        law = self.llm.engine.build_law(self.acceptance)
        options = ", ".join(f"{key}={value}" for key, value in law.options.items())
        name = f"{law.info.name}({options})" if options else law.info.name
        return f"law {name}, guarantee {law.info.guarantee}"

    def _command(self, name: str, *words: str) -> None:
        match name:
            case "/law":
                if words:
                    self._choose_law(*words)
                self.screen.note(self.describe_law())
            case "/receipt":
                self._show_receipt()
            case "/reset":
                self.messages.clear()
                self.screen.note("the conversation is forgotten")
            case "/help":
                print("\n".join(COMMANDS.values()), file=sys.stderr)
            case _:
                raise ConfigError(
                    f"unknown command {name!r}{did_you_mean(name, COMMANDS)}; /help lists all"
                )

    def _choose_law(self, name: str, *options: str) -> None:
        try:
            asked = Acceptance(name, law_options(list(options)))
        except ValueError as reason:
            raise LawError(f"law option {' '.join(options)!r} {reason}") from None
        self.llm.engine.build_law(asked)
        self.acceptance = asked

    def _show_receipt(self) -> None:
        if self.last is None:
            self.screen.note("there is no answer yet")
        elif self.last.receipt is None:
            self.screen.note("the last answer was stopped and has no receipt")
        else:
            print(to_json(self.last.receipt.to_dict()), flush=True)

    def _answer(self, text: str) -> None:
        """Answer one message; an interrupted answer is kept as far as it got."""
        asked = [*self.messages, {"role": "user", "content": text}]
        first = [] if self.system is None else [{"role": "system", "content": self.system}]
        prompt_ids = self.llm.encode_messages([*first, *asked])
        tokenizer = self.llm.engine.parts.tokenizer
        show = None
        if not self.screen.is_json:
            show = make_show(
                self.screen,
                tokenizer,
                with_provenance=self.has_provenance,
                with_legend=self.last is None,
            )
        answer = Answer()
        deltas = self.llm.stream(prompt_ids, self.config.sampling, self.acceptance)
        try:
            collect(deltas, show, answer)
        except KeyboardInterrupt:
            cast("Generator[OutputDelta, None, None]", deltas).close()
            self.screen.note("\n(stopped)")
        self.messages = [*asked, {"role": "assistant", "content": answer.text}]
        self.last = answer
        if self.screen.is_json:
            print(json.dumps(answer.to_dict(), ensure_ascii=False), flush=True)
            return
        print(flush=True)
        if answer.receipt is not None:
            self.screen.note(receipt_line(answer.receipt))
