"""Arms that are servers, made ready: the same requests over HTTP, and what a server tells of them.

In: specs, and prompts as token ids. Out: answers, and windows in which what cannot be seen through
HTTP is absent: parts of a step, loss at each position, memory. Which law judged is what the server
says, or not told.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from leeway.acceptance.base import Guarantee
from leeway.acceptance.registry import law_infos
from leeway.bench.http_stream import TIMEOUT_S, Answer, ask, get_json
from leeway.bench.plugin_receipts import PluginReceipts
from leeway.bench.url_spec import UrlSpec, nested
from leeway.bench.window import GAP, SCHEMA, Window, tally_to_json
from leeway.bench.workload import Message, Prompt, digest_of
from leeway.core.errors import ConfigError
from leeway.core.receipt import Tally
from leeway.core.types import SamplingParams
from leeway.text.tokenizer import Tokenizer

NOT_TOLD = "not told"
_PROBE_TIMEOUT_S = 30.0
_LAW_OPTION = "speculative.options."


@dataclass(frozen=True, slots=True)
class UrlArm:
    """A server that can run requests.

    Attributes:
        spec: with the model's name as the server has it.
        tokenizer: writes prompts as text; None where no model is loaded, so that only messages
            can be sent.
        conversations: of prompts sent as messages, by prompt id.
        timeout_s: longest silence of the server.
        receipts: where the server is vLLM, which cannot put them into its answers.
    """

    spec: UrlSpec
    tokenizer: Tokenizer | None
    conversations: Mapping[str, Sequence[Message]] = field(default_factory=dict)
    timeout_s: float = TIMEOUT_S
    receipts: PluginReceipts | None = None

    def ask(self, prompt: Prompt, sampling: SamplingParams) -> Answer:
        """Run one request alone to its end; a failure is part of the answer.

        Raises:
            ConfigError: the prompt cannot be sent in this arm's way.
        """
        body = self.body(prompt, sampling)
        path = "/chat/completions" if "messages" in body else "/completions"
        url, text = self.spec.url + path, json.dumps(body).encode()
        if self.receipts is None:
            return ask(url, text, timeout_s=self.timeout_s)
        begun = self.receipts.begin()
        answer = ask(url, text, timeout_s=self.timeout_s)
        told = self.receipts.end(begun)
        if told is None or told_of(answer):
            return answer
        return replace(answer, own={**answer.own, "metrics": {"speculative_decoding": told}})

    def body(self, prompt: Prompt, sampling: SamplingParams) -> dict[str, Any]:
        """Return the body of a request.

        Raises:
            ConfigError: the prompt cannot be sent in this arm's way.
        """
        return {
            **self._prompt_field(prompt),
            **({} if self.spec.model is None else {"model": self.spec.model}),
            **sampling_fields(sampling),
            "stream": True,
            "stream_options": {"include_usage": True},
            **nested(self.spec.extra),
        }

    def wake(self, prompt: Prompt, sampling: SamplingParams) -> None:
        """Run one request that is not counted.

        Raises:
            ConfigError: the server refuses it or fails.
        """
        answer = self.ask(prompt, sampling)
        if answer.error is not None:
            hint = ""
            if answer.status is not None and 400 <= answer.status < 500:
                hint = "; if it takes no token ids, write ,send=text or ,send=messages behind it"
            raise ConfigError(
                f"arm {self.spec.name!r}: the first request failed: {answer.error}{hint}"
            )

    def _prompt_field(self, prompt: Prompt) -> dict[str, Any]:
        if self.tokenizer is None and self.spec.send != "messages":
            raise ConfigError(
                f"arm {self.spec.name!r} has send={self.spec.send}, which takes the tokenizer of a "
                "model in this process; write send=messages, or add an arm such as --arm plain",
                param="arm",
            )
        if self.spec.send == "tokens":
            return {"prompt": list(prompt.token_ids)}
        if self.spec.send == "text":
            assert self.tokenizer is not None
            return {"prompt": prompt_text(prompt, self.tokenizer)}
        conversation = self.conversations.get(prompt.prompt_id)
        if conversation is None:
            raise ConfigError(
                f"arm {self.spec.name!r} sends messages, and prompt {prompt.prompt_id!r} is not a "
                "whole conversation (raw text, or cut by --prompt-len); write send=tokens or "
                "send=text"
            )
        return {"messages": [dict(message) for message in conversation]}


def sampling_fields(sampling: SamplingParams) -> dict[str, Any]:
    """Return the fields that say how to draw.

    Those with a meaning everywhere are always sent, because servers differ in what they take for
    granted; the rest only where it is not off, because a server may refuse a field it has not.
    """
    facts: dict[str, Any] = {
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "seed": sampling.seed,
    }
    usually: dict[str, tuple[Any, Any]] = {
        "ignore_eos": (sampling.ignore_eos, False),
        "stop": (list(sampling.stop), []),
        "stop_token_ids": (list(sampling.stop_token_ids), []),
        "logit_bias": ({str(one): bias for one, bias in sampling.logit_bias.items()}, {}),
        "presence_penalty": (sampling.presence_penalty, 0.0),
        "frequency_penalty": (sampling.frequency_penalty, 0.0),
        "repetition_penalty": (sampling.repetition_penalty, 1.0),
    }
    return facts | {name: value for name, (value, off) in usually.items() if value != off}


def prompt_text(prompt: Prompt, tokenizer: Tokenizer) -> str:
    """Return a text that the tokenizer reads as exactly these ids, special tokens by name.

    Raises:
        ConfigError: there is none, as where a prompt was cut within a character or word.
    """
    pieces: list[str] = []
    plain: list[int] = []
    for token_id in prompt.token_ids:
        name = tokenizer.token_text(token_id)
        if name is not None and not tokenizer.token_bytes(token_id):
            pieces += (tokenizer.decode(plain, continues=bool(pieces)), name)
            plain = []
        else:
            plain.append(token_id)
    pieces.append(tokenizer.decode(plain, continues=bool(pieces)))
    text = "".join(pieces)
    if tuple(tokenizer.encode(text, add_special=False)) != prompt.token_ids:
        raise ConfigError(
            f"prompt {prompt.prompt_id!r} has no text that gives exactly its tokens; use "
            "send=tokens, or another --prompt-len"
        )
    return text


def ready_url_arm(
    spec: UrlSpec,
    tokenizer: Tokenizer | None,
    conversations: Mapping[str, Sequence[Message]],
) -> UrlArm:
    """Return the arm, with the model's name from the server where the spec leaves it open.

    Raises:
        ConfigError: no server answers, or it has several models.
    """
    try:
        listed = get_json(spec.url + "/models", _PROBE_TIMEOUT_S)
    except OSError as reason:
        if spec.model is not None and str(reason).startswith("HTTP"):
            return UrlArm(spec, tokenizer, conversations)
        raise ConfigError(
            f"arm {spec.name!r}: {spec.url}/models gave no list of models ({reason}); start the "
            "server, correct the URL, or name the model with ,model=NAME"
        ) from None
    names = model_names(listed)
    if spec.model is None and len(names) != 1:
        raise ConfigError(
            f"arm {spec.name!r}: the server has {len(names)} models ({', '.join(names)}); choose "
            "one with ,model=NAME"
        )
    named = spec if spec.model is not None else replace(spec, model=names[0])
    receipts = PluginReceipts(spec.url)
    return UrlArm(
        named, tokenizer, conversations, receipts=receipts if receipts.is_there() else None
    )


def model_names(listed: object) -> list[str]:
    """Return the ids of a /models answer."""
    data = listed.get("data") if isinstance(listed, Mapping) else None
    return [str(one["id"]) for one in data or [] if isinstance(one, Mapping) and "id" in one]


def url_window(arm: UrlArm, prompt: Prompt, sampling: SamplingParams) -> Window:
    """Run one request and return its window; which run it belongs to is the caller's to say.

    Raises:
        ConfigError: the prompt cannot be sent in this arm's way.
    """
    body = arm.body(prompt, sampling)
    answer = arm.ask(prompt, sampling)
    void = _fault(arm, prompt, sampling, answer)
    return Window(
        schema=SCHEMA,
        identity={},
        session="",
        arm=arm.spec.name,
        definition=arm.spec.text,
        void=void,
        note=None if void is not None else _note(prompt, sampling, answer),
        prompt_id=prompt.prompt_id,
        prompt_index=0,
        seed=0,
        round=0,
        position=0,
        request_digest="",
        prompt_digest=prompt.digest,
        output_digest="",
        text_digest=hashlib.sha256(answer.text.encode()).hexdigest(),
        finish_reason=answer.finish_reason or "error",
        prompt_tokens=len(prompt.token_ids),
        output_tokens=answer.count("completion_tokens") or 0,
        row_shape=NOT_TOLD,
        receipt=told_receipt(answer, sampling) | {"body_digest": digest_of(body)},
        tally=tally_to_json(server_tally(answer)),
        steps={GAP: [round(gap, 7) for gap in answer.gaps_s]},
        ttft_s=answer.end_s if answer.ttft_s is None else answer.ttft_s,
        decode_s=answer.decode_s or 0.0,
        load=None,
        other_cores=None,
        stolen_cores=None,
        peak_memory_bytes=None,
        prefill_tokens=prefill_tokens(answer),
    )


def prefill_tokens(answer: Answer) -> int | None:
    """Return the prompt tokens that a server read anew; None where it does not tell.

    llama.cpp counts them (`timings.prompt_n`), others what they had kept
    (`usage.prompt_tokens_details.cached_tokens`).
    """
    timings = answer.own.get("timings")
    if isinstance(timings, Mapping) and isinstance(timings.get("prompt_n"), int):
        return int(timings["prompt_n"])
    details = {} if answer.usage is None else answer.usage.get("prompt_tokens_details")
    kept = details.get("cached_tokens") if isinstance(details, Mapping) else None
    read = answer.count("prompt_tokens")
    return read - kept if isinstance(kept, int) and read is not None else None


def told_receipt(answer: Answer, sampling: SamplingParams) -> dict[str, Any]:
    """Return what a server told of a request, under the names of the engine's own receipts."""
    told = told_of(answer)
    return {
        "law": str(told.get("law", NOT_TOLD)),
        "options": told.get("options", {}),
        "guarantee": str(told.get("guarantee", NOT_TOLD)),
        "drafter": str(told.get("drafter", NOT_TOLD)),
        "temperature": sampling.temperature,
        "server": dict(answer.own),
        "usage": None if answer.usage is None else dict(answer.usage),
        "status": answer.status,
        "error": answer.error,
        "chunk_s": [round(second, 6) for second in answer.chunk_s],
    }


def server_tally(answer: Answer) -> Tally:
    """Return the counts that a server tells of a request; what it does not tell counts nothing."""
    told = told_of(answer)
    if told:
        decided = _number(told, "positions_decided")
        loss = told.get("loss")
        loss = loss if isinstance(loss, Mapping) else {}
        outside = _number(loss, "outside_support")
        return Tally(
            num_verify_steps=int(_number(told, "verify_steps")),
            num_spec_steps=int(_number(told, "num_spec_steps")),
            num_draft_tokens=int(_number(told, "num_draft_tokens")),
            num_accepted_tokens=int(_number(told, "num_accepted_draft_tokens")),
            num_output_tokens=int(_number(told, "output_tokens")),
            num_decided=int(decided),
            num_deferred=int(_number(told, "deferred")),
            draft_tv_sum=decided * _number(told, "mean_draft_tv"),
            loss_tv_sum=decided * _number(loss, "total_variation_mean"),
            loss_tv_max=_number(loss, "total_variation_max"),
            loss_kl_sum=(decided - outside) * _number(loss, "kl_mean"),
            loss_kl_max=_number(loss, "kl_max"),
            num_outside_support=int(outside),
        )
    timings = answer.own.get("timings")
    timings = timings if isinstance(timings, Mapping) else {}
    return Tally(
        num_draft_tokens=int(_number(timings, "draft_n")),
        num_accepted_tokens=int(_number(timings, "draft_n_accepted")),
    )


def told_of(answer: Answer) -> Mapping[str, Any]:
    """Return `metrics.speculative_decoding`; empty where the server has none."""
    metrics = answer.own.get("metrics")
    told = metrics.get("speculative_decoding") if isinstance(metrics, Mapping) else None
    return told if isinstance(told, Mapping) else {}


def _number(values: Mapping[str, Any], name: str) -> float:
    value = values.get(name)
    return value if isinstance(value, int | float) else 0.0


def _fault(arm: UrlArm, prompt: Prompt, sampling: SamplingParams, answer: Answer) -> str | None:
    """Return why a window does not count; None if it does."""
    if answer.error is not None:
        return f"a request failed: {answer.error}"
    num = answer.count("completion_tokens")
    if num is None:
        return "the server gave no usage, so its tokens cannot be counted"
    if not len(answer.chunk_s) <= num <= sampling.max_tokens:
        return (
            f"the server counted {num} tokens of an answer that came in {len(answer.chunk_s)} "
            f"pieces and may have {sampling.max_tokens}"
        )
    read = answer.count("prompt_tokens")
    if arm.spec.send == "tokens" and read is not None and read != len(prompt.token_ids):
        return f"the server read {read} prompt tokens and was sent {len(prompt.token_ids)}"
    anew = prefill_tokens(answer)
    if anew is not None and read is not None and anew < read:
        return (
            f"the server read {anew} of {read} prompt tokens and had kept the rest; prefill has to "
            "be cold: switch its prefix cache off (leeway serve --prefix-cache off; llama.cpp: "
            "body.cache_prompt=false)"
        )
    told = told_of(answer)
    return law_fault(arm.spec, sampling, told) or _loss_fault(told)


def _loss_fault(told: Mapping[str, Any]) -> str | None:
    """Return that a lossy law's loss was not measured, though the server measures it."""
    loss = told.get("loss")
    is_lossy = told.get("guarantee") == str(Guarantee.NONE) and _number(told, "positions_decided")
    if is_lossy and isinstance(loss, Mapping) and loss.get("total_variation_mean") is None:
        return (
            f"law {told.get('law')} judged {told['positions_decided']} positions of this answer, "
            "and its loss was measured at none: start vLLM with meter_every 1 beside the law"
        )
    return None


def law_fault(spec: UrlSpec, sampling: SamplingParams, told: Mapping[str, Any]) -> str | None:
    """Return in what the law that judged is not the one that the arm's body asks for.

    At temperature 0 greedy_match judges where a lossy law has nothing to act on, as documented.
    """
    asked = spec.extra.get("speculative.law") or spec.extra.get("vllm_xargs.leeway_law")
    law = told.get("law")
    is_law = any(info.name == asked for info in law_infos())  # a preset's name is no law's
    if asked is not None and law is None:
        return f"law {asked} was asked for, and the server does not tell which one ran"
    if not is_law or (law == "greedy_match" and sampling.temperature == 0):
        return None
    if law != asked:
        return f"law {law} ran, {asked} was asked for"
    options = told.get("options")
    for name, value in spec.extra.items():
        knob = name.removeprefix(_LAW_OPTION)
        ran = options.get(knob) if isinstance(options, Mapping) else None
        if knob != name and ran != value:
            return f"law {law} ran with {knob}={ran}, {value} was asked for"
    return None


def _note(prompt: Prompt, sampling: SamplingParams, answer: Answer) -> str | None:
    told = told_of(answer)
    asked, law = told.get("requested_law"), told.get("law")
    if law == "greedy_match" and asked != law and sampling.temperature == 0:
        return f"{law} judged: at temperature 0 {asked} does not act"
    read = answer.count("prompt_tokens")
    if read is not None and read != len(prompt.token_ids):
        return f"read {read} prompt tokens where arms of this process read {len(prompt.token_ids)}"
    return None
