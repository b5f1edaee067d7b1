"""What stands in for Model Runner V1's `rejection_sample`, without a name of vLLM's in it.

In: the arguments of vLLM's function, and whose rows they are. Out: its result. A call outside a
step (warm-up) goes to vLLM's own function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from leeway.vllm.decider import Decider
from leeway.vllm.judge import Step, judge_step


@dataclass(frozen=True, slots=True)
class _Call:
    """The step that the runner is sampling: its logits, and what says which rows are drafted."""

    runner: Any
    logits: torch.Tensor
    metadata: Any


class ReplacedV1:
    """Judges in vLLM's place.

    Args:
        decider: decides.
    """

    def __init__(self, decider: Decider) -> None:
        self._decider = decider
        self._call: _Call | None = None

    def sample(self, original: Callable[..., Any], runner: Any, logits: Any, metadata: Any) -> Any:  # noqa: ANN401
        """Note whose rows are sampled, while the runner's `_sample` runs."""
        if metadata is None:
            return original(runner, logits, metadata)
        self._call = _Call(runner, logits, metadata)
        try:
            return original(runner, logits, metadata)
        finally:
            self._call = None

    def rejection_sample(  # noqa: PLR0917
        self,
        original: Callable[..., Any],
        draft_token_ids: torch.Tensor,
        num_draft_tokens: list[int],
        max_spec_len: int,
        cu_num_draft_tokens: torch.Tensor,
        draft_probs: torch.Tensor | None,
        target_logits: torch.Tensor,
        bonus_token_ids: torch.Tensor,
        sampling_metadata: Any,  # noqa: ANN401
        *args: Any,  # noqa: ANN401
        **kwargs: Any,  # noqa: ANN401
    ) -> torch.Tensor:
        """Return the tokens of one step: [num_requests, max_spec_len + 1] int32, -1 behind them.

        Arguments as vLLM's: `draft_token_ids` and the rows are flat, `bonus_token_ids` is
        [num_requests, 1].
        """
        call = self._call
        if call is None:
            tokens: torch.Tensor = original(
                draft_token_ids,
                num_draft_tokens,
                max_spec_len,
                cu_num_draft_tokens,
                draft_probs,
                target_logits,
                bonus_token_ids,
                sampling_metadata,
                *args,
                **kwargs,
            )
            return tokens
        states = call.runner.requests
        ids = call.runner.input_batch.req_ids
        plan = self._decider.plan(ids, [states[name].sampling_params for name in ids], states)
        raw = call.logits[call.metadata.target_logits_indices] if plan.reads_raw_rows else None
        step = Step(
            draft_token_ids=draft_token_ids,
            num_draft_tokens=np.asarray(num_draft_tokens, dtype=np.int64),
            max_draft_len=max_spec_len,
            target_logits=target_logits,
            draft_probs=draft_probs,
            raw_logits=raw,
            bonus_token_ids=bonus_token_ids[:, 0],
        )
        coins = plan.throw(max_spec_len, step.num_draft_tokens > 0)
        return judge_step(step, plan, coins, self._decider.tally)
