"""A window: one request of one arm, measured, and the file it is kept in.

In: a request that was run. Out: one JSON file a window, complete or absent. A window holds counts
and sums, so that totals over windows can be taken from files alone; nothing is computed from other
windows here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from leeway.core.errors import ConfigError
from leeway.core.files import write_whole
from leeway.core.receipt import Tally

SCHEMA = 1
SUFFIX = ".window.json"
GAP = "gap"
"""Column of a server's window: times between chunks, in place of the parts of a step."""


@dataclass(frozen=True, slots=True)
class Window:
    """One measured request.

    Attributes:
        schema: version of this form.
        identity: all that must be equal for windows to be compared (code, model, arms ...).
        session: the process that measured it.
        arm, definition: name, and the arm with nothing left to defaults.
        void: why the window does not count; None if it does.
        note: what a reader should know of the law that judged.
        prompt_id, prompt_index, seed, round: which request; `position` is its place among the
            arms of its block.
        request_digest: of prompt and sampling parameters; equal across arms.
        receipt: the engine's own receipt of the request.
        tally: the receipt's counts and sums.
        steps: by part, seconds of each verify step behind the first token; `num_drafted`,
            `num_accepted` of each; of a server, which shows no steps, the `gap` between chunks.
        ttft_s: from adding the request to its first token.
        decode_s: engine steps behind the first token.
        other_cores, stolen_cores: mean number of cores that other processes, or other machines on
            the same host, took meanwhile; None where the system does not say.
        peak_memory_bytes: most memory resident in the process meanwhile, or so far where the
            system does not let the mark be reset.
        kv_bytes: the target's cache blocks that hold the whole request; `kv_cache_bytes` is all
            that the cache was given.
        cpu_mhz: mean over cores behind the request, as the system reports it.
        command: the command line that measured it.
        category: of the prompt.
        prefill_tokens: tokens that the target read up to the first output token, as its backend or
            the server counted; None where it is not told.
        available_memory_bytes: of the machine, behind the request.
    """

    schema: int
    identity: dict[str, Any]
    session: str
    arm: str
    definition: str
    void: str | None
    note: str | None
    prompt_id: str
    prompt_index: int
    seed: int
    round: int
    position: int
    request_digest: str
    prompt_digest: str
    output_digest: str
    text_digest: str
    finish_reason: str
    prompt_tokens: int
    output_tokens: int
    row_shape: str
    receipt: dict[str, Any]
    tally: dict[str, Any]
    steps: dict[str, list[float]]
    ttft_s: float
    decode_s: float
    load: tuple[float, float, float] | None
    other_cores: float | None
    stolen_cores: float | None
    peak_memory_bytes: int | None
    kv_bytes: int | None = None
    kv_cache_bytes: int | None = None
    cpu_mhz: float | None = None
    command: str | None = None
    category: str | None = None
    prefill_tokens: int | None = None
    available_memory_bytes: int | None = None

    @property
    def wall_s(self) -> float:
        """The whole request."""
        return self.ttft_s + self.decode_s

    @property
    def block(self) -> tuple[int, int, int]:
        """Round, seed and prompt: what all arms run one behind the other."""
        return (self.round, self.seed, self.prompt_index)


def tally_to_json(tally: Tally) -> dict[str, Any]:
    """Return the tally's fields with keys that JSON can hold."""
    steps = tally.steps_by_draft_and_accepted
    by_name = {f"{drafted},{accepted}": num for (drafted, accepted), num in steps.items()}
    return asdict(tally) | {"steps_by_draft_and_accepted": by_name}


def tally_from_json(value: Mapping[str, Any]) -> Tally:
    """Return the tally that `tally_to_json` wrote."""
    steps = {}
    for name, num in value["steps_by_draft_and_accepted"].items():
        drafted, _, accepted = name.partition(",")
        steps[int(drafted), int(accepted)] = num
    return Tally(**{**value, "steps_by_draft_and_accepted": steps})


def write_window(folder: Path, arm_index: int, window: Window) -> Path:
    """Write the window's file, replacing an older one of the same request; whole or not at all."""
    arm = re.sub(r"[^A-Za-z0-9._+-]+", "-", window.arm)
    request = f"p{window.prompt_index:03d}-s{window.seed}-r{window.round}"
    path = folder / f"a{arm_index:02d}-{arm}-{request}{SUFFIX}"
    write_whole(path, msgspec.json.encode(window))
    return path


def read_windows(folder: Path) -> list[Window]:
    """Return every window of a folder, in the order of blocks and of arms within them.

    Raises:
        ConfigError: a file is not a window of this version's form.
    """
    found = []
    for path in sorted(folder.glob("*" + SUFFIX)):
        try:
            window = msgspec.json.decode(path.read_bytes(), type=Window)
        except (OSError, msgspec.DecodeError) as reason:
            raise ConfigError(
                f"{path} is not a window of a bench run: {reason}; move it away"
            ) from None
        if window.schema != SCHEMA:
            raise ConfigError(
                f"{path} has the form {window.schema} and this version writes {SCHEMA}; measure "
                "into another folder"
            )
        found.append(window)
    return sorted(found, key=lambda one: (*one.block, one.position))
