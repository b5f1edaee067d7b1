"""Making a head, stage by stage, in a work folder that a later run goes on from.

    target.json          whose head it is
    prompts.json         what was asked, and where it came from
    shard-*/             answers with hidden states
    checkpoint.pt        the head in training
    NAME.safetensors     the head file

In: a plan. Out: the head file and its held-out report. Every stage that is done is kept; the plan
may ask for more answers or more training in a later run.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from leeway.core.config import EngineConfig, default_cache_dir
from leeway.core.errors import ConfigError
from leeway.core.files import only_writer, write_whole
from leeway.engine.engine import Engine
from leeway.engine.load import load_engine
from leeway.heads.batches import HELD_OUT, pack, packed_rows, split
from leeway.heads.capture import CaptureDrafter
from leeway.heads.contamination import EvaluationPrompts
from leeway.heads.dataset import Answer, read_answers
from leeway.heads.evaluate import Report, evaluate
from leeway.heads.export import export
from leeway.heads.generate import generate, num_stored
from leeway.heads.network import Head
from leeway.heads.own_turns import own_turns
from leeway.heads.prompts import file_prompts, gather, stdlib_prompts
from leeway.heads.start import initialise
from leeway.heads.train import Recipe, State, Trainer, batch_losses
from leeway.llm import LLM
from leeway.models.base import ModelFiles
from leeway.models.head_file import SUFFIX
from leeway.models.open import open_model

PROMPTS = "prompts.json"
OnProgress = Callable[[str, int, int], None]
"""Told (stage, done, of how many)."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to make.

    Attributes:
        model: name or path of the target.
        work: the work folder.
        out: the head file.
        prompt_files: JSON-lines files with prompts.
        num_stdlib: most prompts about the standard library's functions.
        num_own_turns: user turns that the target writes itself.
        num_answer_positions: positions of answers to collect, prompts counted.
        max_tokens: longest answer.
        num_draft_tokens: size of the draft vocabulary.
        recipe: how to train.
        seed: of everything random.
        cache_dir: of models.
    """

    model: str
    work: Path
    out: Path
    prompt_files: tuple[Path, ...] = ()
    num_stdlib: int = 1000
    num_own_turns: int = 2000
    num_answer_positions: int = 800_000
    max_tokens: int = 256
    num_draft_tokens: int = 8192
    recipe: Recipe = field(default_factory=Recipe)
    seed: int = 0
    cache_dir: Path = field(default_factory=default_cache_dir)


def make_head(
    plan: Plan,
    on_progress: OnProgress = lambda *_: None,
    on_fetch: OnProgress = lambda *_: None,
) -> Report:
    """Make the head file; return how well it drafts what it was not trained on.

    `on_fetch` is told bytes of a model that is fetched.

    Raises:
        LeewayError: the model or a prompt file cannot be used, or there is nothing to train on.
    """
    _check_out(plan.out)
    _check_prompt_files(plan)
    target = open_model(plan.model, cache_dir=plan.cache_dir, on_progress=on_fetch)
    with only_writer(plan.work, "--work"):
        return _make(plan, target, on_progress)


def _make(plan: Plan, target: ModelFiles, on_progress: OnProgress) -> Report:
    _take_work_folder(plan.work, target)
    if num_stored(plan.work) < plan.num_answer_positions:
        _collect(plan, on_progress)
    training, held_out = split(read_answers(plan.work))
    if not held_out:
        raise ConfigError(
            f"{plan.work} has {len(training)} answers, too few to hold some out: every "
            f"{round(1 / HELD_OUT)}th is; give more prompts (--prompts, --stdlib, --own-turns)"
        )
    ids = draft_vocabulary(training, target.spec.vocab_size, plan.num_draft_tokens)
    head, full_output = new_head(target, ids)
    trainer = Trainer(head, plan.recipe, plan.work / "checkpoint.pt")
    if trainer.state.num_steps == 0:
        _start(head, target, training, held_out, plan.recipe)
    total = plan.recipe.num_positions
    trainer.run(training, lambda state: on_progress("training", state.num_positions, total))
    report = evaluate(
        head, held_out, full_output, torch.from_numpy(ids), depth=plan.recipe.depth, num_rows=256
    )
    summary = _summary(plan, training, trainer.state, report)
    export(head, target, ids, plan.out, depth=plan.recipe.depth, training=summary)
    return report


def draft_vocabulary(
    answers: Iterable[Answer], vocab_size: int, num_tokens: int
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the ids met most often in answers (FR-Spec, arXiv 2502.14856), ascending."""
    counts = np.zeros(vocab_size, np.int64)
    for answer in answers:
        counts += np.bincount(answer.token_ids[answer.start :], minlength=vocab_size)
    ids: np.ndarray[Any, np.dtype[np.int64]] = np.argsort(-counts, kind="stable")[:num_tokens]
    return np.sort(ids)


def new_head(
    target: ModelFiles, draft_token_ids: np.ndarray[Any, np.dtype[np.int64]]
) -> tuple[Head, torch.Tensor]:
    """Return a head of the target's layer shape, and the target's whole output matrix."""
    embed = torch.from_numpy(target.tensor("embed")).bfloat16()
    is_tied = target.spec.tied_output
    output = embed if is_tied else torch.from_numpy(target.tensor("output")).bfloat16()
    rows = output[torch.from_numpy(draft_token_ids)].clone()
    factors = None
    if target.has_tensor("rope_factors"):
        factors = torch.from_numpy(target.tensor("rope_factors"))
    return Head(replace(target.spec, num_layers=1), embed, rows, factors), output


def _start(
    head: Head, target: ModelFiles, training: list[Answer], held_out: list[Answer], recipe: Recipe
) -> None:
    """Initialise the head, judged on a held-out batch."""
    rows = packed_rows(held_out, recipe.row_len, np.random.default_rng(0))[: recipe.rows]
    batch, _ = pack(held_out, rows, recipe.row_len)
    initialise(head, target, training, lambda one: float(batch_losses(one, batch, recipe)[1]))


def _check_out(path: Path) -> None:
    """Refuse now what would be refused when all is done.

    Raises:
        ConfigError: no head file can be written there.
    """
    if path.suffix != SUFFIX:
        raise ConfigError(f"the head file is {str(path)!r}; its name must end in {SUFFIX}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise ConfigError(f"cannot write a head to {str(path)!r}: {error.strerror}") from None


def _check_prompt_files(plan: Plan) -> None:
    """Read the prompt files before anything slow, unless an earlier run has done so.

    Raises:
        ConfigError: one cannot be read, or a line of it is no prompt.
    """
    if not (plan.work / PROMPTS).exists():
        for path in plan.prompt_files:
            for _ in file_prompts(path):
                pass


def _take_work_folder(work: Path, target: ModelFiles) -> None:
    """See that the folder is new or this model's: states of two models must not mix.

    Raises:
        ConfigError: it belongs to another model.
    """
    path = work / "target.json"
    own = {"name": target.name, "sha256": target.sha256()}
    if not path.exists():
        write_whole(path, json.dumps(own, ensure_ascii=False).encode())
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        is_own = found["sha256"] == own["sha256"]
    except (OSError, ValueError, TypeError, KeyError):
        raise ConfigError(
            f"{path} does not say whose answers {work} holds; give another folder with --work"
        ) from None
    if not is_own:
        raise ConfigError(
            f"{work} holds answers of {found['name']!r} (SHA-256 {found['sha256']}), not of "
            f"{target.name!r} (SHA-256 {own['sha256']}); give another folder with --work"
        )


def _collect(plan: Plan, on_progress: OnProgress) -> None:
    """Let the target answer until there is enough."""
    config = EngineConfig(
        model=plan.model,
        drafter="none",
        max_num_seqs=64,
        row_shape="fast",
        prefix_cache="off",
        num_speculative_tokens=1,
        cache_dir=plan.cache_dir,
    )
    engine = load_engine(config)
    llm = LLM.from_engine(engine)
    prompts = [_encoded(llm, text) for text in _prompt_texts(plan, llm, on_progress)]
    generate(
        Engine(replace(engine.parts, drafter=CaptureDrafter()), config),
        prompts,
        plan.work,
        max_tokens=plan.max_tokens,
        num_positions=plan.num_answer_positions,
        seed=plan.seed,
        on_progress=lambda done: on_progress("answers", done, plan.num_answer_positions),
    )


def _encoded(llm: LLM, text: str) -> tuple[int, ...]:
    """Return a user turn, or a plain prompt where the model does not chat."""
    if not llm.engine.parts.chat_template.exists:
        return llm.encode(text)
    return llm.encode_messages([{"role": "user", "content": text}])


def _prompt_texts(plan: Plan, llm: LLM, on_progress: OnProgress) -> list[str]:
    """Return the prompts of an earlier run, or gather them and write them down."""
    path = plan.work / PROMPTS
    if path.exists():
        texts: list[str] = json.loads(path.read_text(encoding="utf-8"))["texts"]
        return texts
    picker = random.Random(plan.seed)
    stdlib = list(stdlib_prompts(plan.seed)) if plan.num_stdlib else []
    own = []
    for text in own_turns(llm, plan.num_own_turns, plan.seed):
        own.append(text)
        on_progress("user turns", len(own), plan.num_own_turns)
    sources: list[tuple[str, Iterable[str]]] = [
        ("own turns", own),
        ("standard library", picker.sample(stdlib, min(plan.num_stdlib, len(stdlib)))),
        *((file.name, file_prompts(file)) for file in plan.prompt_files),
    ]
    prompts = gather(sources, EvaluationPrompts.packaged(), plan.seed)
    write_whole(path, json.dumps(asdict(prompts), ensure_ascii=False).encode())
    return list(prompts.texts)


def _summary(plan: Plan, training: list[Answer], state: State, report: Report) -> dict[str, Any]:
    """Return what the head file tells of its making."""
    prompts = json.loads((plan.work / PROMPTS).read_text(encoding="utf-8"))
    return {
        "prompts": prompts["counts"],
        "prompts_dropped": prompts["num_dropped"],
        "answers": len(training),
        "unique_positions": sum(len(answer.hidden) for answer in training),
        "positions": state.num_positions,
        "steps": state.num_steps,
        "seconds": round(state.seconds),
        "recipe": asdict(plan.recipe),
        "held_out": {
            "positions": report.num_positions,
            "acceptance_by_depth": report.sampled,
            "acceptance_by_depth_untruncated": report.full,
            "greedy_agreement_by_depth": report.greedy,
            "draft_vocabulary_coverage": report.coverage,
        },
    }
