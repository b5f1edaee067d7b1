"""User turns written by the target itself: what it expects to be asked.

A chat model given its template up to where the user's words begin goes on with a user's words
(Magpie, arXiv 2406.08464). It needs no data, and covers what the model was trained for.
"""

from __future__ import annotations

from collections.abc import Iterator

from leeway.core.errors import ModelError
from leeway.core.types import FinishReason, Request, SamplingParams
from leeway.llm import LLM

_MARK = "\x00user\x00"
_LONGEST = 160
_SHORTEST_CHARS = 12


def own_turns(llm: LLM, number: int, seed: int = 0) -> Iterator[str]:
    """Yield up to `number` user turns; those without end or hardly any text are left out.

    Raises:
        ModelError: the model has no chat template, or one that begins with the user's words.
    """
    parts = llm.engine.parts
    if number == 0:
        return
    if not parts.chat_template.exists:
        raise ModelError(
            f"{parts.model_name} has no chat template, so it cannot write user turns of its own; "
            "give prompts with --prompts FILE and --own-turns 0"
        )
    rendered = parts.chat_template.render([{"role": "user", "content": _MARK}])
    prefix, _, behind = rendered.partition(_MARK)
    prompt = tuple(parts.tokenizer.encode(prefix, add_special=False))
    if not prompt:
        raise ModelError(
            f"{parts.model_name} has a chat template that begins with the user's words, so it "
            "cannot be led to write some; give prompts with --prompts FILE and --own-turns 0"
        )
    ends = parts.tokenizer.encode(behind, add_special=False)[:1]
    for index in range(number):
        sampling = SamplingParams(
            temperature=1.0,
            top_p=0.98,
            top_k=100,
            max_tokens=_LONGEST,
            stop_token_ids=tuple(ends),
            seed=(seed << 32) + index,
        )
        llm.engine.add(Request(f"turn-{index}", prompt, sampling, None, 0))
    texts: dict[str, list[str]] = {}
    while llm.engine.has_work:
        for delta in llm.engine.step():
            texts.setdefault(delta.request_id, []).append(delta.text)
            if delta.finish_reason is not None:
                text = "".join(texts.pop(delta.request_id)).strip()
                if delta.finish_reason is FinishReason.STOP and len(text) >= _SHORTEST_CHARS:
                    yield text
