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
    """A process that runs one engine after the other; importing vLLM once is most of the time.

    Args:
        log: what vLLM writes; jobs and answers lie beside it.
        more: of the process' environment.
    """

    def __init__(self, log, **more):
        self._log = log
        self._environment = environment(**more)
        self._num_jobs = 0
        self._process = None

    def run(self, job):
        """Return the job's answer; what vLLM wrote is shown if it ends."""
        if self._process is None or self._process.poll() is not None:
            self._start()
        self._num_jobs += 1
        stem = f"{self._log.name}-{self._num_jobs}"
        asked = self._log.with_name(f"{stem}.json")
        answer = self._log.with_name(f"{stem}.answer.json")
        asked.write_text(json.dumps(job))
        self._process.stdin.write(json.dumps([str(asked), str(answer)]) + "\n")
        self._process.stdin.flush()
        while not answer.exists():
            if self._process.poll() is not None:
                raise RuntimeError(f"vLLM ended:\n{self._log.read_text()[-6000:]}")
            time.sleep(0.1)
        return json.loads(answer.read_text())

    def end(self):
        """End the process."""
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait()

    def _start(self):
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.vllm.run_engine"],
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
            )


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """A tiny target and drafters near it, as Hugging Face folders."""
    from tests.vllm.tiny_folders import write_models

    return write_models(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def run(models, tmp_path_factory):
    """Return a function that runs calls in one engine and returns their answers."""
    folder = tmp_path_factory.mktemp("jobs")
    alone = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
    processes = {
        "one rank": EngineProcess(folder / "alone", **alone),
        "ranks": EngineProcess(folder / "ranks", VLLM_ENABLE_V1_MULTIPROCESSING="1"),
        "V2": EngineProcess(folder / "v2", **alone, VLLM_USE_V2_MODEL_RUNNER="1"),
    }

    def run_calls(calls, *, drafter=None, law=None, watch=False, kind="one rank", **engine):
        job = {
            "engine": engine_arguments(models, drafter, law, **engine),
            "calls": calls,
            "watch": watch,
        }
        return processes[kind].run(job)

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
