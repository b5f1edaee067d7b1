"""`leeway generate`: one prompt, one answer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from leeway.cli.call import Call, to_json
from leeway.cli.options import takes_settings
from leeway.core.errors import ConfigError

if TYPE_CHECKING:
    from leeway.llm import LLM

SHOW_PROVENANCE = Parameter(
    name=["--show-provenance", "--color-tokens"],
    negative="",
    show_default=False,
    help="Mark each token as accepted, recovered or bonus: by colour and underline on a terminal, "
    "by brackets in a pipe.",
)


_PROMPT = Parameter(
    name=["--prompt", "-p"],
    metavar="TEXT",
    allow_leading_hyphen=True,
    help="What to answer; standard input when left out.",
)
_SYSTEM = Parameter(metavar="TEXT", help="A system message before the prompt.")
_RAW = Parameter(
    negative="",
    show_default=False,
    help="Continue the prompt as it is. Without it the model's chat template is applied, if it "
    "has one.",
)
_OUTPUT = Parameter(
    name=["--output", "-o"],
    metavar="PATH",
    help="Write the answer to this file instead of standard output.",
)


@takes_settings("sampling", "law", "drafting", "model")
def generate(
    call: Call,
    *,
    prompt: Annotated[str | None, _PROMPT] = None,
    system: Annotated[str | None, _SYSTEM] = None,
    raw: Annotated[bool, _RAW] = False,
    output: Annotated[Path | None, _OUTPUT] = None,
    show_provenance: Annotated[bool, SHOW_PROVENANCE] = False,
) -> None:
    """Answer one prompt; the text goes to standard output as it is decoded."""
    config, screen = call.resolve()
    if raw and system is not None:
        raise ConfigError("--system needs the chat template; drop it or drop --raw")
    if output is not None and (output.is_dir() or not output.absolute().parent.is_dir()):
        raise ConfigError(f"cannot write {str(output)!r}: name a file in an existing folder")
    text = _read_prompt(prompt)
    from leeway.cli.answer import collect, make_show
    from leeway.cli.loading import load_llm, naming_origins
    from leeway.cli.receipt_line import receipt_line

    with load_llm(config, screen) as llm, naming_origins(config):
        prompt_ids = _encode(llm, text, system, is_raw=raw)
        is_shown = output is None and not screen.is_json
        tokenizer = llm.engine.parts.tokenizer
        show = make_show(screen, tokenizer, with_provenance=show_provenance) if is_shown else None
        answer = collect(llm.stream(prompt_ids, config.sampling), show)
        if screen.is_json:
            head = {"model": llm.engine.parts.model_name, "prompt_token_ids": list(prompt_ids)}
            _print_or_save(to_json(head | answer.to_dict()), output)
        else:
            _print_or_save("" if is_shown else answer.text, output)
        assert answer.receipt is not None
        screen.note(receipt_line(answer.receipt))


def _read_prompt(given: str | None) -> str:
    if given is None and sys.stdin.isatty():
        raise ConfigError("there is no prompt; give -p TEXT, or pipe one in")
    text = sys.stdin.read() if given is None else given
    if not text.strip():
        raise ConfigError("the prompt is empty; give some text")
    return text


def _encode(llm: LLM, text: str, system: str | None, *, is_raw: bool) -> tuple[int, ...]:
    """Return the prompt's ids: a user message under the chat template, or the bare text."""
    if is_raw or (system is None and not llm.engine.parts.chat_template.exists):
        return llm.encode(text)
    messages = [{"role": "user", "content": text}]
    if system is not None:
        messages.insert(0, {"role": "system", "content": system})
    return llm.encode_messages(messages)


def _print_or_save(text: str, path: Path | None) -> None:
    if path is None:
        print(text, flush=True)
        return
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as reason:
        raise ConfigError(f"cannot write {str(path)!r}: {reason.strerror}") from None
