"""Run vLLM offline in a process of its own: python -m tests.vllm.run_engine JOB.json ANSWER.json

A job is {"engine": arguments of vllm.LLM, "calls": [...], "watch": true or false}, a call
{"prompts": [ids or text], "params": [{...}]}. The answer holds for each call the token ids, the
logprobs where asked for, and what the call added to the counters that /metrics shows.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch

from leeway.acceptance.base import RowPair
from leeway.vllm.publish import PERIOD_S, PREFIX
from leeway.vllm.tally import FIELDS

_SUMS = ("count", "mean", "variance")


def counters():
    """Return the counters as /metrics would show them: {law: {field: value}}."""
    from prometheus_client import REGISTRY

    found = {}
    for metric in REGISTRY.collect():
        name = metric.name.removeprefix(PREFIX)
        if metric.name.startswith(PREFIX) and name in FIELDS:
            for sample in metric.samples:
                label = "/".join(sample.labels[key] for key in ("law", "guarantee", "draft_rows"))
                found.setdefault(label, {})[name] = sample.value
    return found


def added(before, after):
    """Return what was added, for labels to which anything was."""
    differences = {
        label: {name: value - before.get(label, {}).get(name, 0.0) for name, value in one.items()}
        for label, one in after.items()
    }
    return {label: one for label, one in differences.items() if one["verify_steps"]}


def generate(llm, call):
    """Return one call's answer."""
    from vllm import SamplingParams

    before = counters()
    params = [SamplingParams(**one) for one in call["params"]]
    prompts = [
        one if isinstance(one, str) else {"prompt_token_ids": one} for one in call["prompts"]
    ]
    began = time.monotonic()
    outputs = llm.generate(prompts, params, use_tqdm=False)
    elapsed_s = time.monotonic() - began
    time.sleep(PERIOD_S * 1.5)
    rows = [one.outputs[0].logprobs for one in outputs]
    return {
        "token_ids": [list(one.outputs[0].token_ids) for one in outputs],
        "logprobs": [
            [{str(token): item.logprob for token, item in row.items()} for row in one or []]
            for one in rows
        ],
        "counters": added(before, counters()),
        "elapsed_s": elapsed_s,
    }


class FirstTokens:
    """Counts the first token of every judged block, and what the closed forms expect of it.

    Works where the engine runs in this process. Blocks differ in their rows, so expectation and
    variance are summed over blocks.
    """

    def __init__(self):
        from leeway.vllm import replaced

        self.count = self.mean = self.variance = 0.0
        self._judge = replaced.judge_step
        replaced.judge_step = self._judge_and_count

    def _judge_and_count(self, step, plan, coins, tally):
        tokens = self._judge(step, plan, coins, tally)
        (group,) = plan.groups
        num = step.num_draft_tokens
        first = torch.from_numpy((np.cumsum(num) - num)[num > 0])
        if group.is_greedy or not len(first):
            return tokens
        target = step.target_logits[first].double().softmax(dim=-1).numpy()
        if step.draft_probs is None:
            draft = np.eye(target.shape[-1])[step.draft_token_ids[first]]
        else:
            draft = step.draft_probs[first].double().numpy()
        emitted = group.law.emitted_probs(RowPair(target, draft / draft.sum(-1, keepdims=True)))
        chosen = tokens[torch.from_numpy(num > 0), 0].numpy()
        self.count = self.count + np.bincount(chosen, minlength=target.shape[-1])
        self.mean = self.mean + emitted.sum(axis=0)
        self.variance = self.variance + (emitted * (1 - emitted)).sum(axis=0)
        return tokens

    def take(self):
        """Return and forget the sums."""
        found = {name: np.atleast_1d(getattr(self, name)).tolist() for name in _SUMS}
        self.count = self.mean = self.variance = 0.0
        return found


def main():
    job = json.loads(Path(sys.argv[1]).read_text())
    from vllm import LLM

    first = FirstTokens() if job.get("watch") else None
    llm = LLM(**job["engine"])
    answer = []
    for call in job["calls"]:
        answer.append(generate(llm, call))
        if first is not None:
            answer[-1]["first_tokens"] = first.take()
    Path(sys.argv[2]).write_text(json.dumps(answer))


if __name__ == "__main__":
    main()
