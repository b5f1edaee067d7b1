"""Which language a text is in.

In: text. Out: its ISO 639-1 code. The one place that knows which library tells.
"""

from __future__ import annotations

import importlib.util

from leeway.core.errors import ConfigError

_LIBRARY = "py3langid"


def check_available() -> None:
    """Raise ConfigError if the library is not installed."""
    if importlib.util.find_spec(_LIBRARY) is None:
        raise ConfigError(
            f"suite ifeval tells languages apart with {_LIBRARY}, which is not installed; "
            "`pip install 'leeway-llm[quality]'`"
        )


def language_of(text: str) -> str | None:
    """Return the likeliest language's code; None for a text without a letter.

    Case does not matter: a text in capitals is in the same language.
    """
    import py3langid  # noqa: PLC0415 - reads its model: 0.1 s that other suites need not pay

    if not any(letter.isalpha() for letter in text):
        return None
    return str(py3langid.classify(text.lower())[0])
