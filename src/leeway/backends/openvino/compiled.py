"""The compiled model: graph, precisions and runtime settings joined, and what is in force.

In: how to build a graph, and the user's choices. Out: a compiled model and a flat table of its
settings.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import openvino as ov

from leeway.backends.openvino.control_groups import ControlGroups
from leeway.backends.openvino.precision import CpuFeatures, choose_precisions
from leeway.backends.openvino.weights import EncodedMatrix, WeightForm, weight_form


class GraphBuilder(Protocol):
    """Builds a graph, and says which embedding it reads in place."""

    def __call__(
        self, form: WeightForm, *, attention: str, num_threads: int
    ) -> tuple[ov.Model, EncodedMatrix]:
        """Build with weights of this form and attention in this element type."""
        ...


@dataclass(frozen=True, slots=True)
class CompiledModel:
    """A model ready to run; `settings` as the runtime reports them.

    `embedding` is read where it lies and must be kept as long as the model runs.
    """

    runtime: ov.CompiledModel
    embedding: EncodedMatrix
    settings: dict[str, str | int | float | bool]


def compile_model(
    build: GraphBuilder, *, weights: str, kv_cache: str, num_threads: int | None
) -> CompiledModel:
    """Build the graph and compile it for the CPU.

    Raises:
        ConfigError: a choice is unknown.
        ModelError: a tensor is missing or corrupt.
    """
    core = ov.Core()
    cpu = CpuFeatures.detect(core)
    form = weight_form(weights, has_bf16=cpu.has_bf16, has_vnni=cpu.has_vnni)
    precisions = choose_precisions(weights, kv_cache, cpu)
    threads = num_threads or num_usable_cores()
    properties = precisions.properties() | {
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
        "INFERENCE_NUM_THREADS": threads,
        # Pinning fights with a host that moves virtual CPUs, and gains nothing elsewhere.
        "ENABLE_CPU_PINNING": False,
    }
    graph, embedding = build(form, attention=precisions.attention, num_threads=threads)
    runtime = core.compile_model(graph, "CPU", properties)
    settings: dict[str, str | int | float | bool] = {
        "backend": "openvino",
        "runtime_version": ov.__version__,
        "weights": weights,
        "weight_kind": form.kind,
        "output_kind": form.output_kind,
        "product_len": form.product_len,
        "kv_cache": kv_cache,
        "attention": precisions.attention,
        "cpu_has_bf16": cpu.has_bf16,
        "cpu_has_vnni": cpu.has_vnni,
    }
    for name, requested in properties.items():
        settings[name] = _in_force(runtime, name, requested)
    return CompiledModel(runtime, embedding, settings)


def num_usable_cores(
    topology: Path = Path("/sys/devices/system/cpu"), groups: ControlGroups | None = None
) -> int:
    """Return how many physical cores this process may run on and keep busy.

    Two hardware threads of one core count once: a second one adds waiting, not arithmetic.
    """
    quota = (groups or ControlGroups()).num_processors()
    cores = _cores_of_affinity(topology)
    return cores if quota is None else min(cores, quota)


def _cores_of_affinity(topology: Path) -> int:
    try:
        usable = os.sched_getaffinity(0)
    except AttributeError:  # only Linux tells
        return os.cpu_count() or 1
    cores = set()
    for cpu in usable:
        siblings = topology / f"cpu{cpu}" / "topology" / "thread_siblings_list"
        try:
            cores.add(siblings.read_text(encoding="ascii").strip())
        except OSError:
            return len(usable)
    return len(cores)


def _in_force(
    runtime: ov.CompiledModel, name: str, requested: str | int | bool
) -> str | int | bool:
    """Return the runtime's own word on a property, or what was asked where it tells none."""
    try:
        value = runtime.get_property(name)
    except RuntimeError:
        return requested
    if isinstance(value, str | int | bool):
        return value
    return value.get_type_name() if isinstance(value, ov.Type) else str(value).rpartition(".")[2]
