"""What a law costs per verify step beside vLLM's own rejection sampler, on this machine.

    python -m tests.vllm.step_cost [--vocab-sizes 49152 151936] [--batch-sizes 1 8 64] [--repeats 9]

Both judge the same random rows, from prepared logits to tokens. Arms are interleaved. Times are
medians of the processor time of one thread, in ms, so that other work on the machine hardly counts.
"""

import argparse
import itertools
import statistics
import time
from types import SimpleNamespace

import numpy as np
import torch

from leeway.acceptance.registry import build_law
from leeway.core.types import Acceptance
from leeway.vllm.batch import Asked, Requests
from leeway.vllm.judge import Step, judge_step
from leeway.vllm.tally import Tally

NUM_DRAFT_TOKENS = 4
LAWS = (
    Acceptance("rejection"),
    Acceptance("typical", {"delta": 0.2}),
    Acceptance("tokenv3", {"alpha": 0.5, "off_set": "coin"}),
    Acceptance("lenient", {"leniency": 0.5}),
    Acceptance("block"),
)
ARMS = (*(law.law for law in LAWS), "typical, metered")


def make_rows(num_requests, vocab_size, with_rows):
    """Return logits and draft rows of a sampled step."""
    generator = torch.Generator().manual_seed(0)
    num_rows = num_requests * NUM_DRAFT_TOKENS
    logits = 3 * torch.randn(num_rows, vocab_size, generator=generator)
    noisy = logits + torch.randn(num_rows, vocab_size, generator=generator)
    drafts = noisy.argmax(dim=-1).to(torch.int32)
    return logits, drafts, noisy.softmax(dim=-1) if with_rows else None


def own_sampler(num_requests, logits, drafts, draft_probs):
    """Return vLLM's own judging of the step as a function of nothing."""
    from vllm.v1.sample.rejection_sampler import rejection_sample

    metadata = SimpleNamespace(
        all_greedy=False,
        all_random=True,
        temperature=torch.ones(num_requests),
        generators={},
    )
    counts = [NUM_DRAFT_TOKENS] * num_requests
    ends = torch.arange(1, num_requests + 1, dtype=torch.int32) * NUM_DRAFT_TOKENS
    bonus = torch.zeros(num_requests, 1, dtype=torch.int32)
    return lambda: rejection_sample(
        drafts, counts, NUM_DRAFT_TOKENS, ends, draft_probs, logits, bonus, metadata
    )


def law_sampler(acceptance, num_requests, logits, drafts, draft_probs, *, meter_every):
    """Return a law's judging of the step as a function of nothing."""
    asked = Asked(build_law(acceptance), False, 1)
    ids = [str(index) for index in range(num_requests)]
    sources = [asked] * num_requests
    requests = Requests(lambda source: source, 0)
    tally = Tally(meter_every)
    drafted = np.ones(num_requests, dtype=np.bool_)

    def judge():
        step = Step(
            draft_token_ids=drafts,
            num_draft_tokens=np.full(num_requests, NUM_DRAFT_TOKENS, dtype=np.int64),
            max_draft_len=NUM_DRAFT_TOKENS,
            target_logits=logits,
            draft_probs=draft_probs,
            raw_logits=None,
            bonus_token_ids=torch.zeros(num_requests, dtype=torch.int64),
        )
        plan = requests.plan(ids, sources, ids)
        return judge_step(step, plan, plan.throw(NUM_DRAFT_TOKENS, drafted), tally)

    return judge


def measure(arms, repeats):
    """Return the median time of each arm in ms, arms interleaved."""
    times = {name: [] for name in arms}
    for _ in range(repeats + 1):
        for name, arm in arms.items():
            began = time.process_time()
            arm()
            times[name].append(1000 * (time.process_time() - began))
    return {name: statistics.median(found[1:]) for name, found in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--vocab-sizes", type=int, nargs="+", default=[49_152, 151_936])
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    from vllm.platforms import current_platform

    current_platform.import_kernels()
    current_platform.register_triton_kernel_overrides()
    torch.set_num_threads(1)
    print("| vocabulary | requests | draft rows | vLLM's own, ms | " + " | ".join(ARMS) + " |")  # noqa: T201
    print("|" + "---|" * (len(ARMS) + 4))  # noqa: T201
    for vocab_size, num_requests, with_rows in itertools.product(
        options.vocab_sizes, options.batch_sizes, (True, False)
    ):
        rows = make_rows(num_requests, vocab_size, with_rows)
        arms = {"vLLM": own_sampler(num_requests, *rows)}
        for law, name in zip(LAWS, ARMS, strict=False):
            arms[name] = law_sampler(law, num_requests, *rows, meter_every=0)
        arms[ARMS[-1]] = law_sampler(LAWS[1], num_requests, *rows, meter_every=1)
        found = measure(arms, options.repeats)
        kind = "rows" if with_rows else "certain"
        cells = [f"{found[name] / found['vLLM']:.2f}" for name in ARMS]
        line = [f"{vocab_size:,}", str(num_requests), kind, f"{found['vLLM']:.2f}", *cells]
        print("| " + " | ".join(line) + " |", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
