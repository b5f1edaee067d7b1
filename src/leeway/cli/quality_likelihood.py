"""`leeway quality likelihood`: texts under a model behind a server."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from leeway.cli.call import Call
from leeway.cli.options import takes_settings
from leeway.core.errors import ConfigError

if TYPE_CHECKING:
    from leeway.bench.intervals import Estimate

DEFINITIONS = {
    "log p": "log probability of a token of the completion behind all before it, nats; mean over "
    "tokens, interval over texts",
    "perplexity": "exp(- mean log p)",
    "impossible": "tokens to which the model gives no probability; not in the mean",
}
_FILE = Parameter(
    name="FILE",
    help='JSONL with {"prompt": TEXT, "completion": TEXT}, as `quality run --save-completions` '
    "writes them.",
)
_URL = Parameter(
    metavar="URL",
    help="An OpenAI-style API whose /completions gives log probabilities of an echoed prompt.",
)


@takes_settings()
def likelihood(
    call: Call,
    file: Annotated[Path, _FILE],
    /,
    *,
    url: Annotated[str, _URL],
    server_model: Annotated[
        str | None,
        Parameter(metavar="NAME", show_default=False, help="Name to ask for; the server's own."),
    ] = None,
    limit: Annotated[
        int | None, Parameter(metavar="N", show_default=False, help="Take the first N texts only.")
    ] = None,
) -> None:
    """Feed texts to the model behind a server and say how likely it finds them, arm by arm."""
    _, screen = call.resolve()
    from leeway.bench.http_stream import check_url
    from leeway.bench.tables import number_text
    from leeway.cli.bench_table import print_rows
    from leeway.cli.quality_print import print_definitions
    from leeway.quality.likelihood import read_texts, score_text, sum_up

    if limit is not None and limit < 1:
        raise ConfigError(f"--limit {limit} is out of range; give 1 or more")
    api = check_url(url, "--url")
    texts = read_texts(file)[:limit]
    found = sum_up(texts, [score_text(api, server_model, text) for text in texts])
    if screen.is_json:
        arms = [asdict(one) | {"perplexity": one.perplexity} for one in found]
        screen.print_json({"definitions": DEFINITIONS, "url": api, "arms": arms})
        return
    rows = [["arm", "log p", "95 %", "perplexity", "tokens", "texts", "impossible"]]
    rows += [
        [
            one.arm,
            number_text(None if one.mean is None else one.mean.value, 4),
            _bounds(one.mean),
            number_text(one.perplexity, 3),
            *(str(count) for count in (one.num_tokens, one.num_texts, one.num_impossible)),
        ]
        for one in found
    ]
    print_rows(rows, screen.out())
    print_definitions(DEFINITIONS, screen)


def _bounds(mean: Estimate | None) -> str:
    if mean is None or mean.low is None or mean.high is None:
        return "-"
    return f"{mean.low:.4f} to {mean.high:.4f}"
