"""Run vLLM offline in a process of its own: python -m tests.vllm.run_engine ENGINE.json

The file holds arguments of vllm.LLM. Each line of stdin names two files: a job and where its answer
goes. A job is {"calls": [...], "watch": true or false}, a call {"prompts": [ids or text], "params":
[{...}]}. The answer holds for each call the token ids, the logprobs where asked for, and what the
call added to the counters that /metrics shows.
"""

import json
import os
import sys
import time
from pathlib import Path

from tests.vllm.emitted import EmittedTokens
from tests.vllm.interpreted import interpret

from leeway.vllm.publish import PERIOD_S, PREFIX
from leeway.vllm.tally import FIELDS


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


def settled():
    """Return the counters once the thread that writes them has written the last step."""
    found = None
    while found != (found := counters()):
        time.sleep(2 * PERIOD_S)
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
    return {
        "token_ids": [list(one.outputs[0].token_ids) for one in outputs],
        "prompt_logprobs": [rows_of(one.prompt_logprobs) for one in outputs],
        "counters": added(before, settled()),
        "elapsed_s": elapsed_s,
    }


def rows_of(logprobs):
    """Return vLLM's logprobs as JSON has them: for each position {token: logprob}, or None."""
    return [
        None if row is None else {str(token): item.logprob for token, item in row.items()}
        for row in logprobs or []
    ]


def main():
    if os.environ.get("VLLM_USE_V2_MODEL_RUNNER") == "1":
        interpret()
    from vllm import LLM

    llm = LLM(**json.loads(Path(sys.argv[1]).read_text()))
    for line in sys.stdin:
        asked, answer = map(Path, json.loads(line))
        job = json.loads(asked.read_text())
        emitted = EmittedTokens() if job["watch"] else None
        found = []
        for call in job["calls"]:
            found.append(generate(llm, call))
            if emitted is not None:
                found[-1]["emitted"] = emitted.take()
        if emitted is not None:
            emitted.end()
        unfinished = answer.with_suffix(".part")
        unfinished.write_text(json.dumps(found))
        unfinished.rename(answer)
    llm.llm_engine.engine_core.shutdown()


if __name__ == "__main__":
    main()
