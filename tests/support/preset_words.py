"""What docs/laws says of presets beyond the code (fields and form as in `law_words`)."""

from __future__ import annotations

from tests.support.law_words import Words

PRESETS = {
    "medusa": Words(
        short="typical acceptance as Medusa's code has it",
        use=("Results of Medusa are to be reproduced or compared with, at its own settings.",),
        avoid=(
            "For speed or fidelity alone: [typical](typical.md) with `off_set=coin` and the same "
            "delta and eps keeps the same tokens, accepts more, and loses less.",
            "Medusa's trees are not part of it: this is its rule for one chain of drafts. The "
            "entropy is the full one; Medusa adds 1e-5 inside the logarithm.",
        ),
        worked="On the five tokens exp(-entropy) is {five.exp_H}, times {o[delta]} more than "
        "the cap {o[eps]}, so the threshold is {five.cut}: tokens {five.T} are kept, {five.qT} of "
        "drafts. Else the target draws anew: token 1 comes with {five.q[1]} + {five.eta} × "
        "{five.p[1]} = {five.e[1]}. With the coin {five.coin.A} of drafts would pass at a total "
        "variation of {five.coin.TV}, here {five.A} at {five.TV}. On the three tokens, all above "
        "the threshold, the draft is emitted as it is.",
    ),
    "vllm_v0_typical": Words(
        short="typical acceptance as vLLM v0 had it, with the most likely token after a rejection",
        use=("Outputs of vLLM v0's typical acceptance sampler are to be reproduced.",),
        avoid=(
            "Anything else: after every rejection the most likely token is emitted, which makes "
            "the text greedier than the temperature says. With `off_set=coin` "
            "[typical](typical.md) accepts more and loses less.",
        ),
        worked="On the five tokens {five.T} are kept. The rest of the drafts, {five.eta}, ends as "
        "token 0: it comes with {five.q[0]} + {five.eta} = {five.e[0]}, where the target gives it "
        "{five.p[0]}. The coin would accept {five.coin.A} instead of {five.A}, at a total "
        "variation of {five.coin.TV} instead of {five.TV}.",
    ),
    "trtllm_relaxed": Words(
        short="relaxed acceptance as TensorRT-LLM recommends it, for reasoning spans",
        use=(
            "A reasoning model under the settings that TensorRT-LLM recommends; add `--phase "
            "reasoning`, for TensorRT-LLM relaxes between the marks of thinking only.",
            "Temperature 0: it reads the model's own rows, before temperature and truncation, and "
            "so acts there too.",
        ),
        avoid=(
            "Outside reasoning: wherever the peak is below the allowed distance, each of the ten "
            "best tokens passes.",
            "To the letter it is not TensorRT-LLM's: there the token behind a wholly accepted "
            "block is the most likely one, here it is drawn from the target's row.",
            "Rows cut by top-k, top-p or min-p, without `--hard-support`: the rule does not see "
            "the cut.",
        ),
        worked="The peak of the five tokens is {five.p[0]}: {o[delta]} below it is less than "
        "nothing, so every token that the target can give is kept, token 3 with its {five.p[3]} "
        "too. Only token 4 is rejected, and token 0 emitted in its place: {five.q[0]} + {five.eta} "
        "= {five.e[0]}. On the three tokens the draft is emitted as it is.",
    ),
    "sglang": Words(
        short="SGLang's two thresholds, both at 1: exact until they are lowered",
        use=(
            "Settings of SGLang are to be carried over: its `speculative_accept_threshold_single` "
            "is `floor`, its `speculative_accept_threshold_acc` is `leniency`.",
        ),
        avoid=(
            "Expecting SGLang's tree kernel: this is the rule for one chain. Where the drafter "
            "gives probabilities the coin here uses them, so that it stays exact at 1.",
            "Expecting the word *exact* beside it: at these values nothing is lost, but the "
            "guarantee belongs to the law, and [threshold](threshold.md) has none. "
            "[rejection](rejection.md) does the same and promises it.",
        ),
        worked="A floor of {o[floor]} keeps only what the target is certain of, and a leniency of "
        "{o[leniency]} leaves the coin as it is: token 2 of the three passes with {three.p[2]} / "
        "{three.q[2]} = {three.a[2]}, and the target's own row is emitted, at a total variation of "
        "{three.TV}.",
    ),
    "mtplx_478": Words(
        short="typical acceptance as MTPLX proposes it",
        use=("Results of MTPLX with `--typical-threshold 0.2` are to be reproduced.",),
        avoid=(
            "For speed or fidelity alone: [typical](typical.md) with `off_set=coin` and the same "
            "delta keeps the same tokens, accepts more, and loses less.",
        ),
        worked="On the five tokens exp(-entropy) is {five.exp_H}; times {o[delta]} that makes a "
        "threshold of {five.cut}, and tokens {five.T} are kept. {five.A} of drafts pass at a total "
        "variation of {five.TV}; with the coin {five.coin.A} would, at {five.coin.TV}.",
    ),
    "mtplx_485": Words(
        short="the cascade rule TokenV3 as MTPLX proposes it",
        use=("Results of MTPLX with `--cascade-threshold 0.95` are to be reproduced.",),
        avoid=(
            "For speed or fidelity alone: [tokenv3](tokenv3.md) with `off_set=coin` and the same "
            "alpha keeps the same tokens, accepts more, and loses less.",
        ),
        worked="On the five tokens a token is kept from (1 - {o[alpha]}) × {five.p[0]} = "
        "{five.cut} on: {five.T}. Token 3, with {five.p[3]}, just misses that and is accepted with "
        "min(1, eta p/q) = {five.a[3]}. {five.A} of drafts pass at a total variation of "
        "{five.TV}; with the coin {five.coin.A} would, at {five.coin.TV}.",
    ),
}
