"""Settings and steps for tests of the plugin without vLLM."""

import numpy as np
import torch

from leeway.acceptance.registry import build_law
from leeway.acceptance.verify_many import ManyVerdicts
from leeway.core.types import Acceptance
from leeway.vllm.batch import Asked, Requests
from leeway.vllm.judge import Step, judge_step
from leeway.vllm.settings import Drafts, build_settings, read_config
from leeway.vllm.tally import Label

LABEL = Label("typical", "none", "rows")
NGRAM = Drafts("ngram", 4, has_rows=False, why_no_rows="the drafts of method 'ngram' have none")
DRAFT_MODEL = Drafts("draft_model", 4, has_rows=True, why_no_rows="")


def settings(given=None, drafts=DRAFT_MODEL, **environ):
    config, meter_every = read_config({"leeway": given or {}}, environ=environ)
    return build_settings(config, meter_every, drafts, seed=0)


def law(name, **options):
    return build_law(Acceptance(name, options))


def plan_of(*asked, server_seed=0):
    """Return the plan of requests that ask for (law, is_greedy, seed)."""
    sources = [Asked(*one) for one in asked]
    ids = [str(index) for index in range(len(sources))]
    return Requests(lambda source: source, server_seed).plan(ids, sources, ids)


def step_of(targets, drafts, bonus, draft_probs=None):
    """Return the step of these requests.

    `targets` holds one list of probability rows for each request, `drafts` one list of token ids.
    """
    rows = [row for request in targets for row in request]
    ids = [token for request in drafts for token in request]
    probs = None
    if draft_probs is not None:
        probs = torch.tensor([row for request in draft_probs for row in request])
    return Step(
        draft_token_ids=torch.tensor(ids, dtype=torch.int32),
        num_draft_tokens=np.array([len(request) for request in drafts], dtype=np.int64),
        max_draft_len=max(len(request) for request in drafts),
        target_logits=torch.tensor(rows, dtype=torch.float32).log(),
        draft_probs=probs,
        raw_logits=None,
        bonus_token_ids=torch.tensor(bonus),
    )


def verdicts():
    """Return those of two requests: 2 of 3 kept, one of them by a coin, and 1 of 1."""
    return ManyVerdicts(
        num_accepted=torch.tensor([2, 1]),
        next_columns=torch.tensor([4, -1]),
        is_bonus=torch.tensor([False, True]),
        is_kept=torch.tensor([[True, False, False], [True, False, False]]),
        is_decided=torch.tensor([[True, True, True], [True, False, False]]),
    )


def judged(step, plan, tally=None):
    """Return the tokens of one step, coins thrown by the plan."""
    coins = plan.throw(step.max_draft_len, step.num_draft_tokens > 0)
    return judge_step(step, plan, coins, tally).tolist()
