"""What a soak asks: requests of every kind that give the same answer whenever they are asked.

Laws, draft lengths, samplers, forms, routes and lengths are mixed by a fixed draw. Beside them
stand requests that are wrong, each with the status that it must get.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2

LAWS: tuple[dict[str, Any], ...] = (
    {},
    {"law": "rejection"},
    {"law": "block"},
    {"law": "sample_match"},
    {"law": "typical", "delta": 0.3},
    {"law": "medusa"},
    {"law": "tokenv3", "alpha": 0.5},
    {"law": "tv_budget", "budget": 0.1},
    {"law": "typical", "delta": 0.3, "tv_budget": 0.2, "exact_prefix": 4},
    {"law": "ensemble", "weight": 0.2, "hard_support": True},
)
ROUTES = ("/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/messages")
WRONG: tuple[tuple[str, dict[str, Any], int], ...] = (
    ("/v1/completions", {"prompt": "a", "max_tokens": "many"}, 400),
    ("/v1/completions", {"prompt": "a", "made_up": 1}, 400),
    ("/v1/completions", {"prompt": "a", "model": "another"}, 404),
    ("/v1/completions", {"prompt": "a", "speculative": {"law": "typcal"}}, 400),
    ("/v1/completions", {"prompt": [[10**9]]}, 400),
    ("/v1/completions", {"prompt": "a", "n": 65}, 400),
    ("/v1/chat/completions", {"messages": "a"}, 400),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": [{"type": "x"}]}]}, 400),
    ("/v1/messages", {"messages": []}, 400),
    ("/v1/nothing", {}, 404),
)


@dataclass(frozen=True)
class Order:
    """One request, to be sent as often as one likes."""

    path: str
    body: dict[str, Any]

    @property
    def is_greedy(self) -> bool:
        """Whether it is asked at temperature 0."""
        return self.body["temperature"] == 0

    @property
    def can_stream(self) -> bool:
        """Whether its stream is one that `streamed` reads."""
        return self.path in ROUTES[:2]


@dataclass(frozen=True)
class Said:
    """An answer: the text of each choice, and the tokens that were drawn."""

    texts: tuple[str, ...]
    num_tokens: int


def make_orders(sources: list[str], regex: str, num: int, most_tokens: int) -> list[Order]:
    """Return so many requests about pieces of these texts; the same in every run.

    Args:
        sources: texts that the model can read.
        regex: a form that it can write.
        num: of requests.
        most_tokens: the longest answer.
    """
    draw = random.Random(7)
    return [_order(draw, number, sources, regex, most_tokens) for number in range(num)]


def _order(
    draw: random.Random, number: int, sources: list[str], regex: str, most_tokens: int
) -> Order:
    text = draw.choice(sources)
    text = text[: draw.randint(2, len(text))]
    path = ROUTES[number % len(ROUTES)]
    length = "max_output_tokens" if path == "/v1/responses" else "max_tokens"
    body: dict[str, Any] = {
        length: draw.randint(1, most_tokens),
        "seed": number,
        "temperature": 0 if number // len(ROUTES) % 2 else draw.choice((0.5, 0.8, 1.0)),
        "speculative": {**LAWS[number % len(LAWS)]},
    }
    if draw.random() < 0.5:
        body["speculative"]["num_speculative_tokens"] = draw.randint(0, 3)
    if draw.random() < 0.5:
        body |= {"top_p": 0.95, "top_k": 20}
    if path == "/v1/completions":
        body |= {"prompt": text} | ({"n": 2} if draw.random() < 0.3 else {})
        if draw.random() < 0.3:
            body["guided_regex"] = regex
    elif path == "/v1/responses":
        body["input"] = text
    else:
        body["messages"] = [{"role": "user", "content": text}]
    return Order(path, body)


def whole(http: httpx2.Client, order: Order) -> Said:
    """Send an order and return the answer; raises AssertionError unless it is 200."""
    response = http.post(order.path, json=order.body)
    assert response.status_code == 200, f"{response.status_code} {response.text[:300]}"
    answer = response.json()
    usage = answer["usage"]
    if order.path == "/v1/completions":
        texts = [choice["text"] for choice in answer["choices"]]
    elif order.path == "/v1/chat/completions":
        texts = [choice["message"]["content"] for choice in answer["choices"]]
    elif order.path == "/v1/responses":
        texts = [part["text"] for item in answer["output"] for part in item["content"]]
    else:
        texts = [part["text"] for part in answer["content"]]
    return Said(tuple(texts), usage.get("completion_tokens", usage.get("output_tokens")))


def chunks(http: httpx2.Client, order: Order) -> Iterator[dict[str, Any]]:
    """Yield the frames of an order's stream; raises AssertionError at an error."""
    body = {**order.body, "stream": True, "stream_options": {"include_usage": True}}
    with http.stream("POST", order.path, json=body) as response:
        if response.status_code != 200:
            response.read()
            raise AssertionError(f"{response.status_code} {response.text[:300]}")
        for line in response.iter_lines():
            if line.startswith("data: {"):
                frame = json.loads(line.removeprefix("data: "))
                assert "error" not in frame, line[:300]
                yield frame
            elif line == "data: [DONE]":
                return
    raise AssertionError("the stream ended without [DONE]")


def joined(frames: list[dict[str, Any]]) -> Said:
    """Return the answer that the frames of a whole stream come to."""
    texts: dict[int, str] = {}
    for frame in frames:
        for choice in frame["choices"]:
            new = choice["text"] if "text" in choice else choice["delta"].get("content") or ""
            texts[choice["index"]] = texts.get(choice["index"], "") + new
    usage = frames[-1]["usage"]
    return Said(tuple(texts[index] for index in sorted(texts)), usage["completion_tokens"])
