"""`leeway bench ladder`: the same arms at longer and longer contexts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from leeway.cli.bench_options import ARM, OUT, ROUNDS, SAMPLING, SEEDS, Asked
from leeway.cli.call import Call
from leeway.cli.options import takes_settings

_CONTEXTS = Parameter(
    metavar="N,N,...",
    show_default=False,
    help="Contexts in tokens, at which answers end; 1K is 1024. Without it: 512,1K,2K,4K,8K, as "
    "far as the model goes.",
)
_KV_CACHES = Parameter(
    metavar="NAME,...",
    show_default=False,
    help="Precisions of the KV cache, each a load of its own, one behind the other: 16bit,u8. "
    "Without it: the one in force.",
)
_LADDER_PROMPTS = Parameter(
    metavar="FILE",
    show_default=False,
    help="JSONL as for `bench run`. Without it: the source text of this program, as it is.",
)
_LADDER_LIMIT = Parameter(metavar="N", help="Take the first N prompts; the rest only fill up.")
DEFAULT_ARMS = ("plain", "rejection")


@takes_settings("drafting", "model", only=SAMPLING)
def ladder(
    call: Call,
    *,
    arm: Annotated[list[str] | None, ARM] = None,
    contexts: Annotated[str | None, _CONTEXTS] = None,
    kv_caches: Annotated[str | None, _KV_CACHES] = None,
    prompts: Annotated[Path | None, _LADDER_PROMPTS] = None,
    limit: Annotated[int, _LADDER_LIMIT] = 1,
    seeds: Annotated[int, SEEDS] = 3,
    rounds: Annotated[int, ROUNDS] = 1,
    out: Annotated[Path | None, OUT] = None,
) -> int:
    """Measure arms at longer and longer contexts: decode, prefill, first token, wall, memory.

    Each context is a run in a folder of its own under --out; rounds go up the whole ladder one
    behind the other. Answers go on to max tokens (64 unless given) behind an end-of-text token.
    """
    from leeway.cli.bench_ladder_run import run_ladder

    asked = Asked(prompts, limit, None, seeds, rounds, True, out)
    return run_ladder(call, arm or DEFAULT_ARMS, contexts, kv_caches, asked)
