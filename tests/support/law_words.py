"""What docs/laws says beyond the code: when to use a law, when not, and its arithmetic in words.

In a worked example every number is a field that `law_pages` fills from the closed forms: `three`
are the rows of `leeway explain`, `five` those of five tokens, `o` the options. Of rows: p, q, a, r,
e target, draft, accept, recovered and emitted by token; A accepted, R rejected, TV, KL, D; H and
exp_H of the target row; T the tokens kept outright, qT their draft mass, eta the rest; what one
family alone has is named there. Nothing here is typed that the code can say.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Words:
    """What a page says of one law or preset.

    Attributes:
        short: when to use it, for the table of all laws.
        use, avoid: when and when not, one sentence or two each.
        worked: the arithmetic of the example, a format string.
    """

    short: str
    use: tuple[str, ...]
    avoid: tuple[str, ...]
    worked: str


LAWS = {
    "rejection": Words(
        short="the default: exact, from any drafter",
        use=(
            "The answer must have the target's own distribution. This is the law without a "
            "setting.",
            "The drafter gives probabilities (a head, a draft model): no exact law that judges "
            "one position at a time accepts more.",
        ),
        avoid=(
            "Blocks of two tokens and more from such a drafter: [block](block.md) is as exact "
            "and never accepts fewer.",
            "A seed must give the very text of plain decoding: [sample_match](sample_match.md) "
            "does that; here the same seed gives another text of the same distribution.",
        ),
        worked="The draft proposes token 2 with probability {three.q[2]}, and the target gives it "
        "{three.p[2]}: it is accepted in {three.p[2]} / {three.q[2]} = {three.a[2]} of cases. "
        "Tokens 0 and 1 are not proposed more often than the target wants them and always pass. "
        "What is rejected, {three.R} of all drafts, is drawn from what the draft gives too little "
        "of, here token 0 alone: it comes with {three.q[0]} + {three.R} = {three.e[0]}, as the "
        "target has it.",
    ),
    "block": Words(
        short="exact, and accepts more than rejection where whole blocks are drafted with "
        "probabilities",
        use=(
            "An exact answer from a head or a draft model that drafts two tokens or more at a "
            "time. On average it never accepts fewer than rejection; the gain grows with the "
            "block.",
        ),
        avoid=(
            "N-gram drafts, or one draft token at a time: there it accepts just as many as "
            "[rejection](rejection.md).",
        ),
        worked="Three draft tokens in a row, each with the rows of `leeway explain`: judged token "
        "by token {own.token} of them are accepted on average, judged as a block {own.block}. A "
        "block may outvote a token: one that the target likes less than the draft does is forgiven "
        "where those behind it are more to the target's liking, and the law of the whole stays "
        "the target's. Picture and table show a block of one token, where nothing can be "
        "forgiven and both laws are one.",
    ),
    "sample_match": Words(
        short="exact, and with a seed the very text of plain decoding",
        use=(
            "With a seed the answer is that of plain decoding, token for token, whatever was "
            "drafted (under the default `--row-shape stable`): to compare drafters, to find out "
            "what a difference comes from, to switch speculation on where stored answers must not "
            "change.",
            "N-gram drafts: it then accepts just as many as [rejection](rejection.md).",
        ),
        avoid=(
            "Drafts drawn at random from a head or a model: it accepts sum p q, always less than "
            "or as much as rejection.",
        ),
        worked="The target draws a token of its own, and a draft is accepted if it is that one. "
        "Both fall on token 0 with {three.p[0]} × {three.q[0]}, on token 1 with {three.p[1]} × "
        "{three.q[1]}, on token 2 with {three.p[2]} × {three.q[2]}: together {three.A} of drafts "
        "pass, where rejection lets {own.exact.A} pass. What is emitted is the target's draw "
        "either way. (The column *recovered* is the average over rejected tokens.)",
    ),
    "greedy_match": Words(
        short="greedy decoding, whatever temperature was asked for",
        use=(
            "The text should be the greedy one, also where a client asks for a temperature.",
            "At temperature 0 it needs no choosing: there it stands in for every lossy law that "
            "does not read raw rows, and the exact laws come to the same.",
        ),
        avoid=(
            "The answer should be sampled. The guarantee is about greedy decoding: above "
            "temperature 0 the emitted row is far from the row that was asked for (1 - max p), "
            "and the loss meter says so.",
            "Limits on the law (`--tv-budget`, `--exact-prefix`, `--phase`) above temperature 0: "
            "they are refused beside it.",
        ),
        worked="The target's most likely token is 0. A draft of it, {three.q[0]} of drafts, is "
        "kept; after any other token 0 is emitted all the same. Against the sampled row, which "
        "gives it {three.p[0]}, that is a total variation of 1 - {three.p[0]} = {three.TV}.",
    ),
    "typical": Words(
        short="keep what is plausible here: the threshold falls where the target is undecided",
        use=(
            "Open text, where the target is often undecided: the threshold is a share of "
            "exp(-entropy), so many tokens pass where many would do, and few where one is meant.",
            "Any drafter, n-grams included: draft probabilities are not looked at to decide.",
            "With `off_set=coin`, unless Medusa's own behaviour is wanted: the same tokens are "
            "kept, more drafts accepted, less is lost.",
        ),
        avoid=(
            "A bound is needed. What is kept can be overdrawn as far as the draft overdraws it; "
            "use [tv_budget](tv_budget.md), [clip](clip.md), or a limit beside this law.",
            "A delta carried over from another law's knob: here *higher is stricter*. With delta "
            "below 1 the most likely token always passes.",
        ),
        worked="The target row has an entropy H of {three.H} nats; exp(-H) = {three.exp_H}, times "
        "{o[delta]} is the threshold {three.cut}. Tokens {three.T} lie above it, and the "
        "draft proposes one of them with probability {three.qT}. Else, with eta = {three.eta}, the "
        "target draws anew from its whole row: token 0 comes with {three.q[0]} + {three.eta} × "
        "{three.p[0]} = {three.e[0]}, token 2 only with {three.eta} × {three.p[2]} = "
        "{three.e[2]}. On the five tokens the redraw loses {five.TV} where the coin would lose "
        "{five.coin.TV}, and accepts {five.A} where the coin would accept {five.coin.A}.",
    ),
    "tokenv1": Words(
        short="only to reproduce the cascades paper: it keeps what the draft is sure of, likely "
        "or not",
        use=("The cascades paper's TokenV1 is to be reproduced or compared with.",),
        avoid=(
            "Nearly always. The rule compares the draft's probability of the token with the "
            "target's peak and never looks at the target's probability of that token, so an "
            "unlikely token passes if the draft is sure enough of it, an impossible one too. "
            "[tokenv3](tokenv3.md) asks the target.",
            "Weak drafters, and rows cut by top-k, top-p or min-p, without `--hard-support`.",
        ),
        worked="The peak of the target is {three.p[0]}; less {o[alpha]} that makes a threshold of "
        "{three.cut} for the *draft's* probability. Tokens {three.T} reach it, though the target "
        "gives token 2 less than any other. It is emitted with {three.e[2]} instead of "
        "{three.p[2]}: a total variation of {three.TV}, more than the {three.D} by which the "
        "draft itself is off.",
    ),
    "tokenv2": Words(
        short="keep tokens not far below the target's peak, by a fixed distance",
        use=(
            "Tokens are to be kept that are nearly as likely as the best, and the distance is to "
            "mean the same on every row.",
            "Any drafter. Prefer `off_set=coin` to the published `pi`, as with every set rule.",
        ),
        avoid=(
            "Rows are often flat (high temperature, open text): where the peak is not above alpha "
            "every token that the target can give is kept. [tokenv3](tokenv3.md) asks for a "
            "fraction of the peak and has no such edge.",
        ),
        worked="The peak is {five.p[0]}, so the threshold is {five.p[0]} - {o[alpha]} = "
        "{five.cut}: of the five tokens {five.T} are kept, token 2, with {five.p[2]}, just not. "
        "The draft proposes a kept one with {five.qT}. Outside, a draft is accepted with "
        "min(1, eta p/q), eta = {five.eta}: token 2 with {five.a[2]}, token 4 never. The emitted "
        "row overdraws token 1 ({five.e[1]} against {five.p[1]}) and has little left for token 2 "
        "({five.e[2]} against {five.p[2]}).",
    ),
    "tokenv3": Words(
        short="keep tokens that are a good fraction of the target's peak: the cascade rule to "
        "begin with",
        use=(
            "More speed than exact laws give, at a loss that stays with tokens that the target "
            "likes: a kept token is at least 1 - alpha times as likely as the best one.",
            "With `off_set=coin`: the same tokens are kept, more drafts accepted, less is lost. "
            "[heads.md](../heads.md) has measurements of both.",
            "Any drafter, n-grams included.",
        ),
        avoid=(
            "alpha 0 is taken for exact: the most likely token is still kept without a coin. For "
            "an exact answer choose [rejection](rejection.md).",
            "A bound is needed: use [tv_budget](tv_budget.md), or a limit beside this law.",
        ),
        worked="The peak is {five.p[0]}, so a token is kept from {five.cut} on: {five.T}, which "
        "the draft proposes with {five.qT}. Outside, by Algorithm 6, it is accepted with "
        "min(1, eta p/q), eta = {five.eta}: token 3 with {five.a[3]}. In all {five.A} of drafts "
        "pass, at a total variation of {five.TV}. With `off_set=coin` it would be {five.coin.A} "
        "at {five.coin.TV}.",
    ),
    "relaxed_top_k": Words(
        short="keep the target's few best tokens if they are near its peak; made for reasoning "
        "spans",
        use=(
            "A reasoning model's thinking, with `--phase reasoning`: there any of a few good "
            "continuations will do, and the answer behind it stays exact.",
            "Temperature 0 with `rows=raw`: greedy decoding that forgives near misses.",
            "A cap on how many tokens can ever be kept: `rank`. The distance is one of `delta` "
            "(a difference), `ratio` (a fraction) and `log_gap` (nats), whichever is at hand.",
        ),
        avoid=(
            "The cap is not needed: without it [tokenv2](tokenv2.md) keeps the same tokens as "
            "`delta`, and [tokenv3](tokenv3.md), with alpha = 1 - ratio, the same as `ratio`.",
            "rank 1 is taken for exact: above temperature 0 the most likely token is then kept "
            "without a coin.",
        ),
        worked="Rank {o[rank]} and a distance of {o[delta]} from the peak {five.p[0]}: the floor "
        "is {five.cut}, and tokens {five.T} are kept. Token 2 would pass the floor with "
        "{five.p[2]}, but is only third, so it is left to the coin. Token 1 is overdrawn by "
        "{five.q[1]} - {five.p[1]}: that is the whole loss, {five.TV}. On the three tokens "
        "nothing is lost at all: the kept ones are proposed no more often than the target wants "
        "them, and the coin does the rest.",
    ),
    "threshold": Words(
        short="keep tokens from a fixed probability on; exact where no token is that likely",
        use=(
            "A floor in plain terms: no token is kept outright that the target gives less than "
            "`floor`, so a kept token costs at most log(1 / floor) nats of likelihood, and with "
            "`off_set=coin` at leniency 1 the total variation is at most 1 - floor.",
            "Flat rows should be judged exactly: where no token reaches the floor, all is left to "
            "the coin.",
        ),
        avoid=(
            "Open text at a high temperature: few tokens reach a fixed floor, and little is won. "
            "[typical](typical.md) and [tokenv3](tokenv3.md) move with the row.",
        ),
        worked="From {o[floor]} on a token is kept: {five.T} of the five. The draft overdraws "
        "token 1 by {five.q[1]} - {five.p[1]}, which is the whole loss, {five.TV}. Token 3 is left "
        "to the coin: {five.p[3]} / {five.q[3]} = {five.a[3]}. On the three tokens, where the "
        "draft proposes tokens {three.T} no more often than the target wants them, nothing is "
        "lost at all.",
    ),
    "opt": Words(
        short="a cascade of two models: take the draft's whole row where it is sure enough",
        use=(
            "The draft is a good model of its own (`--draft-model`), whose word is to be taken "
            "where its peak is as high as the target's, or nearly: quality is then that of a "
            "cascade, not of the target.",
            "The cascades paper's OPT is to be reproduced.",
        ),
        avoid=(
            "Draft heads and other weak drafters: the decision never looks at the drafted token, "
            "so on a kept row everything passes, unlikely tokens and impossible ones too. "
            "[tokenv3](tokenv3.md) asks about the token.",
            "N-gram drafts: refused, for their peak is always 1.",
            "Rows cut by top-k, top-p or min-p, without `--hard-support`.",
        ),
        worked="The draft's peak is {five.q[1]}, the target's {five.p[0]}; the rows are "
        "{five.D} apart, and {five.p[0]} - {o[alpha]} × {five.D} = {own.bar}. The draft's peak "
        "reaches that, so its whole row is kept and every draft passes: token 3, {five.e[3]} of "
        "the time where the target gives it {five.p[3]}, and token 4, which the target never "
        "gives. The total variation is all of {five.D}, and KL is {five.KL}.",
    ),
    "diff": Words(
        short="as opt, with a fixed allowance between the two peaks",
        use=(
            "As [opt](opt.md), where the allowance is not to depend on how far the rows are apart.",
            "The cascades paper's Diff is to be reproduced.",
        ),
        avoid=(
            "As opt: weak drafters, n-grams (refused), and cut rows without `--hard-support`. On "
            "a kept row every token passes, unlikely ones too.",
        ),
        worked="The draft's peak is {five.q[1]} and has to reach {five.p[0]} - {o[alpha]} = "
        "{own.bar}. It does, so the whole draft row is kept and emitted: token 3 "
        "{five.e[3]} of the time where the target gives it {five.p[3]}, and token 4, which the "
        "target never gives, {five.e[4]}.",
    ),
    "lenient": Words(
        short="the exact coin, loaded by one factor; no token above 1/leniency times its due",
        use=(
            "The simplest dial: accept as if the draft had proposed the token less often. No "
            "token becomes more than 1 / leniency times as likely, and the total variation is at "
            "most 1 - leniency.",
            "It never emits what the target cannot give.",
        ),
        avoid=(
            "KL matters: [clip](clip.md) with c1 = 1 / leniency keeps the same cap, accepts "
            "exactly as many drafts at the same total variation, and its KL is never larger.",
            "A small leniency over long answers: the cap is one for each position, and over n of "
            "them the factors multiply.",
        ),
        worked="Token 2 is proposed with {three.q[2]}; the target's {three.p[2]} counts as "
        "{three.p[2]} / {o[leniency]}, so it is accepted with {three.a[2]} instead of "
        "{own.exact.a[2]} and comes with {three.e[2]}. In all {three.A} of drafts pass, at "
        "a total variation of {three.TV}. Of the five tokens {five.A} pass, at {five.TV} and a KL "
        "of {five.KL} nats; `clip` with c1 = {own.c1} passes {own.clip.A} at {own.clip.TV}, with a "
        "KL of {own.clip.KL} nats.",
    ),
    "clip": Words(
        short="a bound in factors: no token above c1 times its due, at the least divergence",
        use=(
            "How much more often may a token come than the target wants it? At most c1 times; an "
            "answer of n judged tokens at most c1 to the n times. KL is at most log c1, total "
            "variation at most 1 - 1/c1.",
            "Of all laws that accept as many drafts it has the least KL, and the least of every "
            "f-divergence.",
            "It never emits what the target cannot give.",
        ),
        avoid=(
            "The bound is to be in total variation, as how often the output may differ: use "
            "[tv_budget](tv_budget.md).",
        ),
        worked="Token 2 may come at most {o[c1]} × {three.p[2]} = {three.e[2]} of the time, so its "
        "drafts are accepted with {three.e[2]} / {three.q[2]} = {three.a[2]}. What is rejected, "
        "{three.R}, goes to tokens that fall short of c0 times their due, c0 = {three.c0}: token 0 "
        "is raised from {three.q[0]} to {three.c0} × {three.p[0]} = {three.e[0]}. Token 1, between "
        "the two multiples, is emitted as drafted. On the five tokens token 4 stays at 0.",
    ),
    "tv_budget": Words(
        short="a bound in total variation for each position, at the most acceptance that it allows",
        use=(
            "The loss is to be bounded, and no more speed given away than the bound costs: no law "
            "accepts more at that total variation. With `budget` B a judged position differs from "
            "the target in at most B of cases.",
            "One number that means the same with every drafter, model and temperature.",
        ),
        avoid=(
            "The bound is to hold for a whole answer. This one is for each position, and n of "
            "them add up to at most n times B; `--tv-budget` is a ledger for the answer, beside "
            "this or any other lossy law.",
            "What top-k, top-p or min-p cut must stay impossible: a share of the "
            "budget goes to whatever the draft proposes. Add `--hard-support`, or use "
            "[clip](clip.md).",
        ),
        worked="The rows are {three.D} apart and {o[budget]} may be spent, so the draft has a "
        "share of lam = {o[budget]} / {three.D} = {three.lam} in the emitted row. Token 2 is "
        "accepted with {three.lam} + (1 - {three.lam}) × {own.exact.a[2]} = {three.a[2]} and comes "
        "with {three.e[2]}; token 0 makes up for it. {three.A} of drafts pass instead of "
        "{own.exact.A}. On the five tokens, token 4, which the target never gives, comes "
        "with {five.e[4]}, and KL is {five.KL}.",
    ),
    "ensemble": Words(
        short="decode from a fixed mixture of target and draft",
        use=(
            "The mixture itself is wanted, as an ensemble of two models, or to compare with "
            "systems that decode from one.",
        ),
        avoid=(
            "A dial for speed: the share of the draft is the same where the rows agree and where "
            "they do not, so the loss, (1 - w) D, has no bound of its own. "
            "[tv_budget](tv_budget.md) emits a mixture too and bounds it.",
            "N-gram drafts: a drafted token is accepted in 1 - w of cases even where the target "
            "finds it impossible.",
            "What top-k, top-p or min-p cut must stay impossible: add `--hard-support`.",
        ),
        worked="With w = {o[weight]} token 2 is to come with {o[weight]} × {three.p[2]} + "
        "{three.lam} × {three.q[2]} = {three.e[2]}. It is proposed with {three.q[2]}, so its "
        "drafts are accepted with {three.e[2]} / {three.q[2]} = {three.a[2]}. The total variation "
        "is {three.lam} × {three.D} = {three.TV}. On the five tokens, token 4, which the target "
        "never gives, comes with {five.e[4]}.",
    ),
}
