"""The target answers the prompts, batched through the engine, and its states are kept.

Answers are drawn as people draw them: two thirds at temperature 1, top-p 0.95, top-k 20, a third at
temperature 0.6. Whole shards survive an interruption; the next run answers what they lack.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from leeway.core.errors import CapacityError, ContextLengthError
from leeway.core.types import Request, SamplingParams
from leeway.engine.engine import Engine
from leeway.heads.capture import Captured, CaptureDrafter
from leeway.heads.dataset import shard_folders, write_shard

ANSWERS_A_SHARD = 256
WARM = SamplingParams(temperature=1.0, top_p=0.95, top_k=20)
COOL = SamplingParams(temperature=0.6, top_p=0.95)


def generate(
    engine: Engine,
    prompts: Sequence[tuple[int, ...]],
    root: Path,
    *,
    max_tokens: int,
    num_positions: int,
    seed: int,
    on_progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Answer prompts until the shards under `root` hold `num_positions`; return what they hold.

    Args:
        engine: its drafter is a `CaptureDrafter`.
        prompts: token ids; one that does not fit the model is passed over.
        root: folder of the shards.
        max_tokens: longest answer.
        num_positions: enough of them; fewer when the prompts run out.
        seed: of all draws; one answer's seed depends on its prompt's place alone.
        on_progress: told how many positions there are.
    """
    drafter = engine.parts.drafter
    assert isinstance(drafter, CaptureDrafter)
    done, stored = _already_done(root)
    waiting: Iterator[int] = (index for index in range(len(prompts)) if index not in done)
    num_open = 2 * engine.config.max_num_seqs
    while True:
        have = stored + sum(one.num_positions for one in drafter.finished)
        on_progress(have)
        while have < num_positions and len(engine.request_ids()) < num_open:
            index = next(waiting, None)
            if index is None:
                break
            request = _request(index, prompts[index], max_tokens, seed)
            if _fits(engine, request):
                engine.add(request)
        if not engine.has_work:
            break
        engine.step()
        if len(drafter.finished) >= ANSWERS_A_SHARD:
            stored += _store(root, drafter, seed)
    return stored + (_store(root, drafter, seed) if drafter.finished else 0)


def num_stored(root: Path) -> int:
    """Return how many positions with states the shards under `root` hold."""
    return _already_done(root)[1]


def _already_done(root: Path) -> tuple[set[int], int]:
    """Return the places of the prompts that are answered, and the positions stored."""
    done: set[int] = set()
    stored = 0
    for folder in shard_folders(root):
        about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
        done.update(about["prompts"])
        stored += int(np.load(folder / "lengths.npy")[:, 0].sum())
    return done, stored


def _store(root: Path, drafter: CaptureDrafter, seed: int) -> int:
    """Write what is finished, if it is of use, as the next shard and return its positions."""
    answers, drafter.finished = [one for one in drafter.finished if _is_useful(one)], []
    if not answers:
        return 0
    folder = root / f"shard-{len(shard_folders(root)):05d}"
    write_shard(folder, answers, {"prompts": [_place(one) for one in answers], "seed": seed})
    return sum(one.num_positions for one in answers)


def _fits(engine: Engine, request: Request) -> bool:
    """Return whether prompt and answer fit the context and the cache."""
    try:
        engine.check(request)
    except (ContextLengthError, CapacityError):
        return False
    return True


def _is_useful(answer: Captured) -> bool:
    """Return whether anything was answered at all."""
    return answer.num_prompt_tokens > 0


def _place(answer: Captured) -> int:
    return int(answer.request_id.rpartition("-")[2])


def _request(index: int, prompt: tuple[int, ...], max_tokens: int, seed: int) -> Request:
    base = COOL if index % 3 == 2 else WARM
    sampling = replace(base, max_tokens=max_tokens, seed=(seed << 32) + index)
    return Request(f"train-{index}", prompt, sampling, None, 1)
