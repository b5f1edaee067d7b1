"""`leeway bench load`: many requests at once on one server, and what they wait."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from leeway.cli.bench_options import IGNORE_EOS, LIMIT, PROMPTS, SAMPLING
from leeway.cli.call import Call
from leeway.cli.options import takes_settings
from leeway.core.errors import ConfigError

DEFAULT_CLIENTS = "1,2,4,8"
_URL = Parameter(
    metavar="URL",
    show_default=False,
    help="Server of the OpenAI API: URL[,model=NAME][,body.FIELD=VALUE...]. Without it a Leeway "
    "server with the settings below is started for the test.",
)
_CLIENTS = Parameter(
    metavar="N,N,...",
    show_default=False,
    help="Closed loop: so many clients, each asking again behind its answer; one level each. "
    f"Without it and --request-rate: {DEFAULT_CLIENTS}.",
)
_RATE = Parameter(
    metavar="R,R,...",
    show_default=False,
    help="Open loop: so many requests a second at random times (Poisson); one level each.",
)
_NUM = Parameter(metavar="N", help="Requests of each level.")
_SEED = Parameter(metavar="N", help="Of the arrivals; request i has the seed N + i.")
_OUT = Parameter(
    metavar="DIR",
    show_default=False,
    help="Folder for one file a level, from which an interrupted test goes on.",
)


@takes_settings("law", "drafting", "model", only=SAMPLING)
def load(
    call: Call,
    *,
    url: Annotated[str | None, _URL] = None,
    concurrency: Annotated[str | None, _CLIENTS] = None,
    request_rate: Annotated[str | None, _RATE] = None,
    num_requests: Annotated[int, _NUM] = 32,
    prompts: Annotated[Path | None, PROMPTS] = None,
    limit: Annotated[int | None, LIMIT] = None,
    load_seed: Annotated[int, _SEED] = 1,
    ignore_eos: Annotated[bool, IGNORE_EOS] = False,
    out: Annotated[Path | None, _OUT] = None,
) -> int:
    """Put load on a server: throughput, latencies and errors, level by level.

    Levels ask the same prompts, so a server that is started keeps none: --prefix-cache is off
    unless it is typed.

    Ctrl-C shows the levels that are whole; the same command with the same --out goes on from there.
    """
    if url is None and "prefix_cache" not in call.flags:
        call = call.with_flags({"prefix_cache": "off"})
    config, screen = call.resolve()
    for name, value in (("num-requests", num_requests), ("limit", 1 if limit is None else limit)):
        if value < 1:
            raise ConfigError(f"--{name} {value} is out of range; give 1 or more")
    from leeway.bench.default_workload import SOURCES
    from leeway.bench.identity import machine_facts
    from leeway.bench.load_run import LoadPlan
    from leeway.bench.workload import read_sources
    from leeway.cli.bench_load_run import measure, read_levels, server
    from leeway.cli.loading import check_early
    from leeway.core.files import only_writer

    if concurrency is None and request_rate is None:
        concurrency = DEFAULT_CLIENTS
    levels = read_levels(concurrency, request_rate)
    check_early(config)
    sources = (SOURCES if prompts is None else read_sources(prompts))[:limit]
    sampling = replace(config.sampling, seed=None, ignore_eos=ignore_eos)
    plan = LoadPlan(sources, sampling, num_requests, load_seed)
    with only_writer(out), server(call, config, url, screen) as (spec, facts):
        identity = facts | plan.facts() | {"machine": machine_facts()}
        return measure(spec, plan, levels, identity, out=out, screen=screen, command=call.command)
