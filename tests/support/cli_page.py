"""Makes docs/cli.md from the real help texts: `python -m tests.support.cli_page > docs/cli.md`."""

from __future__ import annotations

import contextlib
import io
import os
import sys

from leeway.cli.main import main

WIDTH = "100"
VERBS = (
    (),
    ("serve",),
    ("generate",),
    ("chat",),
    ("laws",),
    ("explain",),
    ("models",),
    ("models", "list"),
    ("models", "pull"),
    ("heads",),
    ("heads", "list"),
    ("heads", "inspect"),
    ("heads", "train"),
    ("demo",),
    ("bench", "run"),
    ("bench", "report"),
    ("bench", "dial"),
    ("bench", "ladder"),
    ("bench", "compare"),
    ("bench", "load"),
    ("bench", "rivals"),
    ("tune",),
    ("quality", "run"),
    ("quality", "compare"),
    ("quality", "report"),
    ("quality", "rescore"),
    ("quality", "plan"),
    ("quality", "suites"),
    ("quality", "martingale"),
    ("quality", "likelihood"),
    ("doctor",),
    ("config", "show"),
    ("version",),
)
HEAD = """# The command line

This page is made from the program's own `--help`; a test fails when the two differ.

## Where values come from

A setting has one name: `--typical-threshold` on the command line, `LEEWAY_TYPICAL_THRESHOLD` in the
environment, `typical_threshold` in a file. Flag beats environment beats file beats default. The
file is the one named by `--config` or `LEEWAY_CONFIG`, else `./leeway.toml`, else
`leeway/config.toml` in `$XDG_CONFIG_HOME` (`~/.config` when unset); the first found is the only one
read. An empty variable counts as unset. `leeway config show` prints every value with its origin. A
name that does not exist, in any layer, is an error.

```toml
# leeway.toml
model = "smollm2-135m-instruct"
kv_memory = "2GiB"
law = "typical"
law_option = { delta = 0.3, off_set = "coin" }
```

## Choosing a law

`--typical-threshold` chooses typical acceptance, `--cascade-threshold` (with `--cascade-rule`) a
cascade, `--law` with `--law-option` any law that `leeway laws` lists. Without any of them the law
is `rejection`, which is exact.

The law is one whole. The highest layer that names one, in whichever of the three ways, decides;
law settings of lower layers, options included, are then set aside. With the file above,
`--law block`, `--typical-threshold 0.5` and `--cascade-threshold 0.5` each give just that law. A
layer above the one that decides may set options: `--law-option delta=0.5` alone keeps the file's
law and its other options, key by key. `--typical-threshold 0` switches off typical acceptance and
`--cascade-threshold off` a cascade that a lower layer chose, `--law none` any law; what is left is
`rejection`. Two different laws named within one layer are refused.

## How long to draft

`--num-speculative-tokens` is the most that is drafted in one step. With `--draft-length fixed`
that many are always asked for. With `adaptive` each request drafts as many as promise the most
tokens for their cost: from how often its own drafts were accepted at each depth so far (older ones
count less) and from `--draft-cost`, what one draft token adds to a verify step; where nothing pays
it decodes plainly and tries one draft token every sixteenth step. Nothing else enters, no clock and
no other request, so a seed gives the same text on a busy machine as on an idle one; and the length
is settled before a token is drawn, so every law keeps its guarantee. `leeway tune` measures plain
decoding, every length and adaptive drafting on this machine under the law and sampler in force, and
writes the fastest, with the measured cost, to the configuration file; where none is clearly faster
than plain decoding it says so and writes nothing.

## Output

Results go to standard output, everything else to standard error. `--json` gives one JSON value
(`chat`: one a line). Colour and progress bars appear on a terminal only, and not with `--no-color`
or `NO_COLOR`. Exit codes: 0 done, 1 a failure at run time, 2 a mistake in what was asked, 130
interrupted. `leeway --install-completion` sets up completion for bash, zsh and fish.
"""


def help_text(*verb: str) -> str:
    """Return what `leeway VERB --help` prints in a pipe of fixed width."""
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        main([*verb, "--help"])
    return "\n".join(line.rstrip() for line in stream.getvalue().strip().splitlines())


def page() -> str:
    """Return the whole page."""
    os.environ["COLUMNS"] = WIDTH
    parts = [HEAD]
    for verb in VERBS:
        title = " ".join(("leeway", *verb))
        parts.append(f"## {title}\n\n```text\n{help_text(*verb)}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(page())
