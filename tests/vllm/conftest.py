"""vLLM in processes of its own, on tiny random models; skipped aloud where vLLM is absent."""

import importlib.util
import json
import os
import subprocess
import sys
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
    """Return the environment of a process that runs vLLM on two CPU cores."""
    own = {
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "2",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    return {**os.environ, **own, **more}


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """A tiny target and a draft model near it, as Hugging Face folders."""
    from tests.vllm.tiny_folders import write_pair

    return write_pair(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def run(models, tmp_path_factory):
    """Return a function that runs one engine and returns its answer; each job runs once."""
    known = {}
    folder = tmp_path_factory.mktemp("jobs")

    def run_job(calls, *, drafter=None, law=None, watch=False, timeout_s=240, **engine):
        job = {
            "engine": engine_arguments(models, drafter, law, **engine),
            "calls": calls,
            "watch": watch,
        }
        key = json.dumps(job, sort_keys=True)
        if key not in known:
            known[key] = run_process(job, folder / f"job{len(known)}", timeout_s)
        return known[key]

    return run_job


def engine_arguments(models, drafter, law, **more):
    """Return arguments of vllm.LLM."""
    arguments = {
        "model": str(models.target),
        "max_model_len": MAX_MODEL_LEN,
        "dtype": "float32",
        "enforce_eager": True,
        "max_num_seqs": 256,
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
        arguments["speculative_config"] = {
            "method": "draft_model",
            "model": str(models.draft),
            "num_speculative_tokens": 3,
            "draft_sample_method": drafter,
        }
    if law is not None:
        arguments["additional_config"] = {"leeway": law}
    return arguments


def run_process(job, stem, timeout_s):
    """Run one job; its output is shown if it fails."""
    asked, answer = stem.with_suffix(".json"), stem.with_suffix(".answer.json")
    asked.write_text(json.dumps(job))
    command = [sys.executable, "-m", "tests.vllm.run_engine", str(asked), str(answer)]
    is_apart = job["engine"].get("tensor_parallel_size", 1) > 1
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment(VLLM_ENABLE_V1_MULTIPROCESSING=str(int(is_apart))),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    stem.with_suffix(".log").write_text(done.stdout + done.stderr)
    if done.returncode:
        raise RuntimeError(
            f"vLLM ended with {done.returncode}:\n{(done.stdout + done.stderr)[-6000:]}"
        )
    return json.loads(answer.read_text())
