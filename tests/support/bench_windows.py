"""Windows whose every figure is known."""

from __future__ import annotations

from dataclasses import replace

from leeway.bench.window import SCHEMA, Window, tally_to_json
from leeway.core.receipt import Tally

IDENTITY = {"machine": {"usable_threads": 2}}
STEP_PARTS = ("target", "draft", "sampling", "law", "rest")


def window(arm="plain", prompt=0, seed=1, round_index=1, tokens=11, decode_s=5.0, **changes):
    """Return a window of one step a token, all of it in the target's forward."""
    steps = {part: [0.0] * (tokens - 1) for part in STEP_PARTS}
    steps["target"] = [decode_s / (tokens - 1)] * (tokens - 1)
    tally = Tally(num_verify_steps=tokens, num_output_tokens=tokens)
    made = Window(
        schema=SCHEMA,
        identity=IDENTITY,
        session="s",
        arm=arm,
        definition=arm,
        void=None,
        note=None,
        prompt_id=str(prompt),
        prompt_index=prompt,
        seed=seed,
        round=round_index,
        position=0,
        request_digest=f"{prompt}-{seed}",
        prompt_digest="",
        output_digest="",
        text_digest="",
        finish_reason="length",
        prompt_tokens=20,
        output_tokens=tokens,
        row_shape="fast",
        receipt={
            "law": "rejection",
            "options": {},
            "guarantee": "exact_distribution",
            "drafter": "none",
            "temperature": 1.0,
        },
        tally=tally_to_json(tally),
        steps=steps,
        ttft_s=0.5,
        decode_s=decode_s,
        load=None,
        other_cores=0.0,
        stolen_cores=0.0,
        peak_memory_bytes=None,
    )
    return replace(made, **changes)
