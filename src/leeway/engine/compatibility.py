"""What cannot work together, refused before anything slow is begun."""

from __future__ import annotations

from leeway.acceptance.base import Law
from leeway.core.errors import LawError


def check_draft_rows(law: Law, drafter: str, *, gives_rows: bool) -> None:
    """Refuse a law that reads draft rows beside a drafter whose drafts are point mass.

    Without drafts nothing is judged, so the drafter `none` goes with every law.

    Raises:
        LawError: the law would keep every drafted token.
    """
    if law.info.needs_draft_rows and drafter != "none" and not gives_rows:
        raise LawError(
            f"law {law.info.name!r} reads the draft's own probabilities, and the {drafter!r} "
            "drafter has none: it would keep every drafted token. Use --drafter mtp or "
            "--draft-model NAME, or a law that `leeway laws` lists as not needing draft rows",
            param="law",
        )
