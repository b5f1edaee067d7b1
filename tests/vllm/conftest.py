"""vLLM in processes of its own, on tiny random models; skipped aloud where vLLM is absent."""

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAX_MODEL_LEN = 128
ALONE = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
KINDS = {
    "one rank": ALONE,
    "ranks": {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"},
    "V2": {**ALONE, "VLLM_USE_V2_MODEL_RUNNER": "1"},
}
"""How an engine is run, and the environment that makes it so."""


def pytest_collection_modifyitems(items):
    if importlib.util.find_spec("vllm") is None:
        reason = "vLLM is not installed here; `make vllm` makes an environment that has it"
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=reason))


def environment(**more):
    """Return the environment of a process that runs vLLM on one core.

    Tiny models gain nothing from more, and threads that wait for each other lose much where other
    work has the cores.
    """
    own = {
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    return {**os.environ, **own, **more}


class EngineProcess:
    """A process of its own for one engine: a second one in a process that had vLLM's n-gram drafter
    gets other weights (vLLM 0.32's CPU build, also without this plugin).

    Args:
        log: what vLLM writes; jobs and answers lie beside it.
        arguments: of vllm.LLM.
        more: of the process' environment.
    """

    def __init__(self, log, arguments, **more):
        self._log = log
        self._num_jobs = 0
        log.with_name(f"{log.name}.engine.json").write_text(json.dumps(arguments))
        with log.open("w") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.vllm.run_engine", f"{log}.engine.json"],
                cwd=ROOT,
                env=environment(**more),
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def run(self, calls, *, watch=False):
        """Return the answers of calls; what vLLM wrote is shown if it ends."""
        self._num_jobs += 1
        asked, answer = (
            self._log.with_name(f"{self._log.name}-{self._num_jobs}.{kind}.json")
            for kind in ("job", "answer")
        )
        asked.write_text(json.dumps({"calls": calls, "watch": watch}))
        self._process.stdin.write(json.dumps([str(asked), str(answer)]) + "\n")
        self._process.stdin.flush()
        while not answer.exists():
            if self._process.poll() is not None:
                raise RuntimeError(f"vLLM ended:\n{self._log.read_text()[-6000:]}")
            time.sleep(0.1)
        return json.loads(answer.read_text())

    def end(self):
        """End the process."""
        self._process.stdin.close()
        self._process.wait()


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """A tiny target and drafters near it, as Hugging Face folders."""
    from tests.vllm.tiny_folders import write_models

    return write_models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def run(models, tmp_path_factory):
    """Return a function that runs calls in one engine and returns their answers.

    Each engine stays until the session ends.
    """
    folder = tmp_path_factory.mktemp("jobs")
    processes = {}

    def run_calls(calls, *, drafter=None, law=None, watch=False, kind="one rank", **engine):
        arguments = engine_arguments(models, drafter, law, **engine)
        key = json.dumps([kind, arguments])
        if key not in processes:
            log = folder / f"engine-{len(processes)}"
            processes[key] = EngineProcess(log, arguments, **KINDS[kind])
        return processes[key].run(calls, watch=watch)

    yield run_calls
    for process in processes.values():
        process.end()


def engine_arguments(models, drafter, law, **more):
    """Return arguments of vllm.LLM.

    A drafter is "ngram", or a method and how it samples: "draft_model greedy",
    "draft_model probabilistic", "eagle probabilistic".
    """
    arguments = {
        "model": str(models.target),
        "max_model_len": MAX_MODEL_LEN,
        "dtype": "float32",
        "enforce_eager": True,
        "max_num_seqs": 640,
        "max_num_batched_tokens": 8192,
        "max_logprobs": -1,
        "seed": 0,
        **more,
    }
    if drafter == "ngram":
        arguments["speculative_config"] = {
            "method": "ngram",
            "num_speculative_tokens": 3,
            "prompt_lookup_max": 3,
            "prompt_lookup_min": 1,
        }
    elif drafter is not None:
        method, sampling = drafter.split()
        arguments["speculative_config"] = {
            "method": method,
            "model": str(models.eagle if method == "eagle" else models.draft),
            "num_speculative_tokens": 3,
            "draft_sample_method": sampling,
        }
    if law is not None:
        arguments["additional_config"] = {"leeway": law}
    return arguments
