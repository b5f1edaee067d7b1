"""`leeway serve`: the OpenAI API over one model."""

from __future__ import annotations

from typing import Annotated

from leeway.cli.call import Call
from leeway.cli.options import MODEL_NAME, takes_settings


@takes_settings("server", "law", "drafting", "model")
def serve(
    call: Call,
    model_name: Annotated[str | None, MODEL_NAME] = None,
    /,
) -> None:
    """Serve a model over the OpenAI API; Ctrl-C finishes what is running, then ends."""
    config, screen = call.with_model(model_name).resolve()
    from leeway.cli.loading import check_early, names_of, naming_origins, progress

    check_early(config)
    with naming_origins(config), progress(screen, names_of(config)) as shown:
        from leeway.server.run import run

        run(config.server, shown, on_ready=shown.close)
