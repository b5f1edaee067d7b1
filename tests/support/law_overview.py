"""What docs/laws says of all laws at once: terms, the four off-sets, and how to choose."""

from __future__ import annotations

from leeway.acceptance.base import Guarantee

GUARANTEES = {
    Guarantee.EXACT_DISTRIBUTION: "the output has the target model's own distribution",
    Guarantee.EXACT_GREEDY: "the output is what greedy decoding of the target gives, token for "
    "token",
    Guarantee.NONE: "the law changes the output's distribution, and the receipt says by how much",
}

VERIFIERS = {
    "token": "token by token",
    "block": "the block as a whole",
    "match": "token by token, by drawing what plain decoding would draw",
}

OFF_SETS = {
    "redraw": ("never", "p", "q on T, plus eta p"),
    "pi": ("min(1, eta p/q)", "(pi - q)+", "pi = q on T, plus eta p: as redraw"),
    "coin": ("min(1, p/q)", "(p - q)+", "q on T, min(p, q) off it, plus what is left by (p - q)+"),
    "argmax": ("never", "the most likely token", "q on T, plus eta on the most likely token"),
}

COIN_SHORT = (
    "`coin` accepts the most and changes the distribution the least, for every p, q and T "
    "([why](README.md#set-rules-four-ways-for-tokens-outside))."
)

COIN_WINS = """\
`coin` is the best of the four for every p, q and T: none accepts more, and none changes the
distribution less. It loses the sum of (q - p)+ over T. `redraw` and `pi` emit q + eta p on T, so
they lose the sum of (q - (1 - eta) p)+ there, which is never less; `argmax` emits at least q there.
Outside T the coin accepts min(q, p), `pi` min(q, eta p), the other two nothing. `redraw`, `pi` and
`argmax` are there because papers and other systems have them.
"""

HEAD = """\
# The acceptance laws

One page a law. These pages are made from the code: formulas, guarantees, options, pictures and
every number in the examples come from the laws themselves, and a test fails when a page differs
from what the code gives. `leeway laws` lists the same in a terminal, and `leeway explain LAW` does
the arithmetic on rows of your own.

## Terms

At each position the draft has a row of probabilities over the vocabulary and the target, which
judges it, another. A law says with what probability the drafted token is accepted, and what is
drawn in its place where it is not. Both together decide which row is *emitted*.

| | |
|---|---|
| p, q | the target's row and the draft's, after temperature and truncation |
| x | the drafted token, drawn from q |
| a(x) | the probability that x is accepted; *kept* is a token that is accepted without a coin |
| (p - q)+ | what p has more than q, token by token, scaled to a row where it is drawn from |
| T, eta | the tokens that a set rule keeps; the draft's mass outside T |
| A | the share of drafts that is accepted |
| D | total variation between p and q: half the sum of the differences |
| TV, KL | total variation of the emitted row from p; its divergence from p, in nats |

A total variation of 0.1 means that the emitted token and the one that plain decoding would have
given, matched as well as they can be, differ in one of ten cases.

## How to choose

- The answer must have the target's own distribution: [rejection](rejection.md), the default;
  [block](block.md) where a head or a draft model drafts several tokens at once;
  [sample_match](sample_match.md) where a seed must give the text of plain decoding.
- The loss must have a bound: [tv_budget](tv_budget.md) (total variation at each position),
  [clip](clip.md) (how many times more likely a token may become), or any lossy law under
  `--tv-budget`, a ledger for the whole answer.
- More speed, and the loss measured rather than bounded: [tokenv3](tokenv3.md) or
  [typical](typical.md), both with `off_set=coin`.
- Lossy while the model reasons, exact in the answer: any of these with `--phase reasoning`.
- Another system's results are to be compared with: its [preset](#presets).

At temperature 0 rows have one token, and a lossy law acts only if it reads raw rows (`rows=raw`).
Limits (`--tv-budget`, `--exact-prefix`, `--hard-support`, `--phase`) go with every lossy law:
[http.md](../http.md#limits-on-a-lossy-law). How much speed and loss a law is worth on a model is
measured by `leeway bench` ([bench.md](../bench.md)), what it does to tasks by `leeway quality`
([quality.md](../quality.md)).
"""

FRONTIER = """\
## The most that a loss can buy

Whatever the law, A <= 1 - D + TV (Yin et al. 2024, arXiv 2411.00841, Theorem 5): acceptance beyond
the exact law's 1 - D costs at least as much total variation. A law for which both sides are equal
gives nothing away. All such laws accept equally much at equal TV on the same rows, and differ only
in where the loss falls: on tokens that the target likes (set rules with `off_set=coin`), evenly up
to a factor ([clip](clip.md)), or on whatever the draft proposes ([tv_budget](tv_budget.md),
[ensemble](ensemble.md)). Row rules ([opt](opt.md), [diff](diff.md)) are such laws too, but on
a row that they keep everything passes, unlikely tokens too, and the loss is all of D.
[tokenv1](tokenv1.md) looks at the draft's probability alone, and keeps unlikely tokens likewise.

All laws with the options of their pages, on the rows of five tokens; *given away* is
1 - D + TV - A:
"""

SET_RULES = """\
## Set rules: four ways for tokens outside

A set rule keeps the tokens of a set T outright. What becomes of the others is its option `off_set`.
The set of [{name}](./{name}.md) with {options}, on the rows of five tokens:
"""
