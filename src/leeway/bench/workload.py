"""Workloads: the prompts that every arm continues, read from a file.

A file has one JSON object a line, in one of the shapes of `SHAPES`; `id` names it in receipts.
`turns` and `question` are what public sets of questions use, `task_id` those of unfinished
functions; `category` groups results. In: a file, a model's tokenizer and chat template. Out:
prompts as token ids. Knows nothing of arms.
"""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leeway.core.errors import ConfigError
from leeway.text.chat_template import ChatTemplate
from leeway.text.tokenizer import Tokenizer

Message = Mapping[str, Any]
SHAPES = (
    '{"prompt": TEXT} (continued as it is), {"messages": [{"role": ..., "content": TEXT}]}, '
    '{"question": TEXT} or {"turns": [TEXT, ...]} (the first one), each with an "id" and a '
    '"category" if you like'
)
_IDS = ("id", "task_id", "question_id")


@dataclass(frozen=True, slots=True)
class Source:
    """One line of a workload: raw text, or a conversation for the chat template."""

    prompt_id: str
    content: str | tuple[Message, ...]
    category: str | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt ready to feed."""

    prompt_id: str
    token_ids: tuple[int, ...]
    category: str | None = None

    @property
    def digest(self) -> str:
        """SHA-256 of the token ids (hex)."""
        return digest_of(self.token_ids)


def digest_of(value: object) -> str:
    """Return the SHA-256 of a value as compact JSON (hex)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def read_sources(path: Path) -> list[Source]:
    """Return the lines of a JSONL file, which may be compressed (`.gz`).

    Raises:
        ConfigError: the file cannot be read, or a line has none of the known shapes.
    """
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        lines = content.decode("utf-8").splitlines()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as reason:
        raise ConfigError(f"--prompts {str(path)!r} cannot be read: {reason}") from None
    found = [_read_line(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise ConfigError(f"--prompts {str(path)!r} holds no prompt; give lines like {SHAPES}")
    ids = [source.prompt_id for source in found]
    twice = next((name for name in ids if ids.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"--prompts {str(path)!r} has the id {twice!r} twice; give each its own")
    return found


def encode(
    sources: Sequence[Source],
    tokenizer: Tokenizer,
    template: ChatTemplate,
    prompt_len: int | None = None,
) -> list[Prompt]:
    """Return the prompts as token ids, each exactly `prompt_len` long if that is given.

    A longer prompt is cut, a shorter one filled with the text of those that follow it in the file,
    both before the end of a conversation's template, which asks for the answer.

    Raises:
        ConfigError: `prompt_len` leaves no room for the template's end.
        RequestError: the chat template refuses a conversation.
    """
    whole = [_encode_one(source.content, tokenizer, template) for source in sources]
    if prompt_len is None:
        return [
            Prompt(source.prompt_id, ids, source.category)
            for source, ids in zip(sources, whole, strict=True)
        ]
    made = []
    for index, (source, ids) in enumerate(zip(sources, whole, strict=True)):
        tail = _template_tail(source.content, tokenizer, template)
        if len(tail) >= prompt_len:
            raise ConfigError(
                f"--prompt-len {prompt_len} is too short: the chat template alone ends with "
                f"{len(tail)} tokens; give more"
            )
        body = ids[: len(ids) - len(tail)]
        others = [*whole[index + 1 :], *whole[: index + 1]]
        filler = itertools.chain.from_iterable(itertools.cycle(others))
        filled = itertools.chain(body, filler)
        cut = tuple(itertools.islice(filled, prompt_len - len(tail)))
        made.append(Prompt(source.prompt_id, cut + tail, source.category))
    return made


def first_of_each(sources: Sequence[Source], num: int) -> list[Source]:
    """Return the first `num` of each category, in the order of the file."""
    seen: Counter[str | None] = Counter()
    kept = []
    for source in sources:
        seen[source.category] += 1
        if seen[source.category] <= num:
            kept.append(source)
    return kept


def conversations(sources: Sequence[Source]) -> dict[str, tuple[Message, ...]]:
    """Return the messages of the lines that are conversations, by prompt id."""
    return {one.prompt_id: one.content for one in sources if not isinstance(one.content, str)}


def _encode_one(
    content: str | tuple[Message, ...], tokenizer: Tokenizer, template: ChatTemplate
) -> tuple[int, ...]:
    if isinstance(content, str):
        return tuple(tokenizer.encode(content))
    if not template.exists:
        return tuple(tokenizer.encode("\n\n".join(str(one["content"]) for one in content)))
    return tuple(tokenizer.encode(template.render(content), add_special=False))


def _template_tail(
    content: str | tuple[Message, ...], tokenizer: Tokenizer, template: ChatTemplate
) -> tuple[int, ...]:
    """Return the tokens that end every conversation, whatever its last message says."""
    if isinstance(content, str) or not template.exists:
        return ()
    *rest, last = content
    one, other = (
        _encode_one((*rest, {**last, "content": f"{last['content']} {word}"}), tokenizer, template)
        for word in ("yes", "nothing")
    )
    length = 0
    while length < min(len(one), len(other)) and one[-length - 1] == other[-length - 1]:
        length += 1
    return one[len(one) - length :]


def _read_line(path: Path, number: int, line: str) -> Source:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as reason:
        raise ConfigError(f"{path}, line {number}: not JSON ({reason.msg}); {SHAPES}") from None
    if isinstance(value, dict):
        name = next((str(value[key]) for key in _IDS if key in value), str(number))
        for key, read in _READERS.items():
            content = read(value[key]) if key in value else None
            if content is not None:
                return Source(name, content, _text(value.get("category")))
    raise ConfigError(f"{path}, line {number}: not a prompt; a line is {SHAPES}")


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _question(value: object) -> tuple[Message, ...] | None:
    text = _text(value)
    return None if text is None else ({"role": "user", "content": text},)


def _turns(value: object) -> tuple[Message, ...] | None:
    return _question(value[0]) if isinstance(value, list) and value else None


def _messages(value: object) -> tuple[Message, ...] | None:
    if not isinstance(value, list) or not value:
        return None
    is_good = all(isinstance(one, dict) and {"role", "content"} <= one.keys() for one in value)
    return tuple(value) if is_good else None


_READERS: dict[str, Callable[[object], str | tuple[Message, ...] | None]] = {
    "prompt": _text,
    "messages": _messages,
    "question": _question,
    "turns": _turns,
}
