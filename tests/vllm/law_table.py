"""A table of laws inside vLLM with a real model: tokens per verify step and measured loss,
and how many greedy answers are plain vLLM's.

    python -m tests.vllm.law_table MODEL.gguf [--tokens 64] [--drafters n-gram]

The GGUF's weights are written as a Hugging Face folder for vLLM. There is no smaller model of the
same tokens to draft with, so the draft model is the target with noise in its matrices: a draft of
some quality, not a fast one. One engine for each drafter; laws are chosen by request.
"""

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
from tests.support.tiny_models import hf_config, hf_name, write_safetensors
from tests.vllm.conftest import ALONE, EngineProcess

from leeway.models.gguf import GGUFFiles
from leeway.models.tensor_shapes import expected_shapes

LAWS = (
    {"law": "rejection"},
    {"law": "block"},
    {"law": "typical", "delta": 0.9},
    {"law": "typical", "delta": 0.3},
    {"law": "typical", "delta": 0.1},
    {"law": "tokenv3", "alpha": 0.25, "off_set": "coin"},
    {"law": "tokenv3", "alpha": 0.75, "off_set": "coin"},
    {"law": "tokenv3", "alpha": 0.95, "off_set": "coin"},
    {"law": "lenient", "leniency": 0.8},
    {"law": "lenient", "leniency": 0.4},
    {"law": "tv_budget", "budget": 0.05},
    {"law": "tv_budget", "budget": 0.2},
    {"law": "opt", "alpha": 0.5},
)
GREEDY = ({"law": "rejection"}, {"law": "typical", "delta": 0.3})
DRAFTERS = ["draft-model", "n-gram"]
PROMPTS = (
    "Write a Python function that returns the prime factors of a number.",
    "Explain in three sentences why the sky is blue.",
    "List five animals that live in the sea, one a line.",
    "Translate into French: The weather is fine and we go to the beach.",
    "What is the capital of Italy, and what is it known for?",
    "Write a short letter that thanks a neighbour for watering the plants.",
    "Count from one to thirty in words.",
    "Give a recipe for pancakes.",
)


def write_folder(source, folder, noise):
    """Write a GGUF's model as a Hugging Face folder, its matrices with relative noise."""
    files = GGUFFiles(source)
    folder.mkdir()
    generator = np.random.default_rng(0)
    tensors = {}
    for name, _ in expected_shapes(files.spec):
        values = files.tensor(name)
        if noise and values.ndim == 2 and name != "embed":
            spread = noise * float(values.std())
            values = values + generator.normal(0, spread, values.shape).astype(np.float32)
        tensors[hf_name(name)] = np.ascontiguousarray(values)
    write_safetensors(folder / "model.safetensors", tensors, "BF16")
    config = hf_config(files.spec) | {
        "architectures": ["LlamaForCausalLM"],
        "torch_dtype": "bfloat16",
        "eos_token_id": files.tokenizer.eos_token_ids[0],
        "bos_token_id": files.tokenizer.bos_token_id,
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(files.tokenizer.tokenizer_json)
    kind = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": None}
    (folder / "tokenizer_config.json").write_text(json.dumps(kind))
    return str(folder)


def prompts_for(drafter):
    """Return questions; for n-grams texts to be said again, else they find next to nothing."""
    if drafter == "draft-model":
        return PROMPTS
    starts = range(len(PROMPTS))
    texts = (" ".join(PROMPTS[start:] + PROMPTS[:start]) for start in starts)
    return [f"Repeat this text word for word, three times.\n\n{text}" for text in texts]


def make_call(law, prompts, num_tokens, temperature=0.8):
    """Return the call of one law; of plain vLLM where it is None."""
    extra = {f"leeway_{name}": value for name, value in (law or {}).items()}
    texts = [f"<|im_start|>user\n{one}<|im_end|>\n<|im_start|>assistant\n" for one in prompts]
    params = [
        {"temperature": temperature, "max_tokens": num_tokens, "seed": seed, "extra_args": extra}
        for seed in range(len(prompts))
    ]
    return {"prompts": texts, "params": params}


def start(log, target, options, speculative=None):
    """Start an engine, plain vLLM's without a drafter."""
    engine = {
        "model": target,
        "max_model_len": 512,
        "dtype": options.dtype,
        "enforce_eager": True,
        "max_num_seqs": 8,
        "seed": 0,
    }
    if speculative is not None:
        law = {"law": "rejection", "allow_laws": "all", "meter_every": 1}
        engine |= {"speculative_config": speculative, "additional_config": {"leeway": law}}
    return EngineProcess(log, engine, **ALONE, OMP_NUM_THREADS=str(options.threads))


def measure(process, laws, prompts, num_tokens):
    """Return each law's counters under one drafter, as each is done."""
    for law in laws:
        (answer,) = process.run([make_call(law, prompts, num_tokens)])
        yield next(iter(answer["counters"].values()))


def num_alike(plain, process, prompts, num_tokens):
    """Return how many greedy answers are plain vLLM's, token for token, under each law."""
    (expected,) = plain.run([make_call(None, prompts, num_tokens, 0.0)])
    found = process.run([make_call(law, prompts, num_tokens, 0.0) for law in GREEDY])
    pairs = [zip(one["token_ids"], expected["token_ids"], strict=True) for one in found]
    return [sum(one == other for one, other in pair) for pair in pairs]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--noise", type=float, default=0.1)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--drafters", nargs="+", choices=DRAFTERS, default=DRAFTERS)
    parser.add_argument("--only-greedy", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        target = write_folder(options.model, folder / "target", 0.0)
        plain = start(folder / "plain", target, options)
        say("| drafter | law | tokens per verify step | deferral rate | mean TV | positions |")
        say("|---|---|---|---|---|---|")
        for drafter in options.drafters:
            prompts = prompts_for(drafter)
            process = start(
                folder / drafter, target, options, speculative(drafter, folder, options)
            )
            laws = [law for law in LAWS if drafter == "draft-model" or law["law"] != "opt"]
            laws = [] if options.only_greedy else laws
            found = measure(process, laws, prompts, options.tokens)
            for law, counts in zip(laws, found, strict=True):
                say(f"| {drafter} | {shown(law)} | {row(counts)} |")
            alike = num_alike(plain, process, prompts, options.tokens)
            for law, count in zip(GREEDY, alike, strict=True):
                say(
                    f"{drafter}, {shown(law)}: {count} of {len(prompts)} greedy answers are plain's"
                )
            process.end()
        plain.end()


def say(text):
    """Print at once."""
    print(text, flush=True)  # noqa: T201


def speculative(drafter, folder, options):
    """Return vLLM's configuration of a drafter."""
    if drafter == "n-gram":
        return {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 3}
    return {
        "method": "draft_model",
        "model": write_folder(options.model, folder / "draft", options.noise),
        "num_speculative_tokens": 4,
        "draft_sample_method": "probabilistic",
    }


def shown(law):
    """Return a law and its knobs as text."""
    knobs = " ".join(f"{name}={value}" for name, value in law.items() if name != "law")
    return f"{law['law']} {knobs}".strip()


def row(counts):
    """Return a law's figures as cells."""
    decided, steps = counts["positions_decided"], counts["verify_steps"]
    figures = (
        f"{(steps + counts['accepted']) / steps:.2f}",
        f"{counts['deferred'] / decided:.3f}",
        f"{counts['loss_total_variation'] / max(counts['loss_positions'], 1):.3f}",
        f"{int(decided)}",
    )
    return " | ".join(figures)


if __name__ == "__main__":
    main()
