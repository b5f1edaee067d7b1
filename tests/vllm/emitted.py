"""What judged positions emit inside vLLM, beside what the law's closed form expects of them.

Works where the engine runs in this process. Each position has rows of its own, so its tokens are
told apart by their rank in the target's row, and expectations are summed over positions. Given
everything before it a position emits one token of its own closed form; summed over different rows
the counts spread less than those of one row drawn as often, so a chi-square limit is passed by
chance no more often than it says.
"""

import numpy as np

from leeway.acceptance.base import RowPair
from leeway.vllm import replaced_v1, replaced_v2
from leeway.vllm.judge import judge_step

NUM_RANKS = 12
"""Ranks from here on are one cell."""


class EmittedTokens:
    """Counts tokens of judged positions by rank, until `end`."""

    def __init__(self):
        self._judge = judge_step
        self._forget()
        for module in (replaced_v1, replaced_v2):
            module.judge_step = self._judge_and_count

    def end(self):
        """Count no more."""
        for module in (replaced_v1, replaced_v2):
            module.judge_step = self._judge

    def take(self):
        """Return and forget the sums: found and expected, each [NUM_RANKS + 1], and impossible.

        The last counts tokens to which the closed form gives nothing.
        """
        taken = {
            "found": self._found.tolist(),
            "expected": self._expected.tolist(),
            "impossible": self._impossible,
        }
        self._forget()
        return taken

    def _forget(self):
        self._found = np.zeros(NUM_RANKS + 1)
        self._expected = np.zeros(NUM_RANKS + 1)
        self._impossible = 0

    def _judge_and_count(self, step, plan, coins, tally):
        tokens = self._judge(step, plan, coins, tally)
        (group,) = plan.groups
        if not group.is_greedy:
            self._count(group.law, step, tokens.numpy())
        return tokens

    def _count(self, law, step, tokens):
        num = step.num_draft_tokens
        offset = np.arange(num.sum()) - np.repeat(np.cumsum(num) - num, num)
        request = np.repeat(np.arange(len(num)), num)
        chosen = tokens[request, offset]
        # Under block verification a later position hangs on the whole block's coin.
        is_counted = chosen >= 0 if law.verifier != "block" else offset == 0
        if step.lengths is not None:
            is_counted &= offset < step.lengths.numpy()[request]
        target = step.target_logits[is_counted].double().softmax(dim=-1).numpy()
        if step.draft_probs is None:
            draft = np.eye(target.shape[-1])[step.draft_token_ids[is_counted]]
        else:
            draft = step.draft_probs[is_counted].double().numpy()
            draft /= draft.sum(-1, keepdims=True)
        emitted = np.asarray(law.emitted_probs(RowPair(target, draft)))
        ranks = np.argsort(np.argsort(-target, axis=-1, kind="stable"), axis=-1)
        ranks = np.minimum(ranks, NUM_RANKS)
        chosen = chosen[is_counted][:, None]
        self._found += np.bincount(
            np.take_along_axis(ranks, chosen, -1).ravel(), minlength=NUM_RANKS + 1
        )
        self._expected += np.bincount(
            ranks.ravel(), weights=emitted.ravel(), minlength=NUM_RANKS + 1
        )
        self._impossible += int((np.take_along_axis(emitted, chosen, -1) < 1e-9).sum())
