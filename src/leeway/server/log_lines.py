"""Where the log goes: standard error, as lines for people or as one JSON object a line.

A record may carry `fields`, names and values that a JSON line has beside its message. No text of
prompt or answer is ever handed to the log.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

_FOR_PEOPLE = "%(asctime)s %(levelname)s %(message)s"
_LEVELS = {
    "leeway": logging.INFO,
    "uvicorn.error": logging.WARNING,
    "asyncio": logging.ERROR,  # it warns of every client that leaves in the middle of a stream
}


class JsonLines(logging.Formatter):
    """One object a line: `time` (UTC), `level`, `message`, the record's fields, `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        at = datetime.fromtimestamp(record.created, UTC)
        line = {
            "time": at.isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log_to_stderr(log_format: str) -> None:
    """Send our log and uvicorn's to standard error, unless the caller has set them up."""
    handler = logging.StreamHandler(sys.stderr)
    is_json = log_format == "json"
    handler.setFormatter(JsonLines() if is_json else logging.Formatter(_FOR_PEOPLE))
    for name, level in _LEVELS.items():
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(handler)
            logger.propagate = False
        if logger.level == logging.NOTSET:
            logger.setLevel(level)
