"""Tokenizer, chat template and end tokens from the files of a Hugging Face folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers

from leeway.core.errors import ModelError
from leeway.core.types import TokenizerData
from leeway.models.tokenizer_from_gguf import END_TOKENS


def read_tokenizer(folder: Path, config: Mapping[str, Any]) -> TokenizerData:
    """Build the tokenizer; `config` is the folder's config.json.

    Raises:
        ModelError: tokenizer.json is missing or broken.
    """
    path = folder / "tokenizer.json"
    try:
        document = path.read_text(encoding="utf-8")
        inner = tokenizers.Tokenizer.from_str(document)
    except FileNotFoundError as error:
        raise ModelError(
            f"{folder} has no tokenizer.json; save the model's fast tokenizer beside its weights"
        ) from error
    except Exception as error:  # the library raises plain Exception
        raise ModelError(f"cannot read {path}: {error}; fetch it again") from error
    settings = _optional_json(folder / "tokenizer_config.json")
    generation = _optional_json(folder / "generation_config.json")
    bos = _special_id(inner, settings.get("bos_token"))
    if bos is None:
        bos = next(iter(_ids(config.get("bos_token_id"))), None)
    return TokenizerData(
        tokenizer_json=document,
        chat_template=_chat_template(folder, settings),
        bos_token_id=bos,
        eos_token_ids=_end_ids(inner, settings, generation, config, json.loads(document)),
        add_bos=bos is not None and inner.encode("a").ids[:1] == [bos],
    )


def _end_ids(
    inner: tokenizers.Tokenizer,
    settings: Mapping[str, Any],
    generation: Mapping[str, Any],
    config: Mapping[str, Any],
    document: Mapping[str, Any],
) -> tuple[int, ...]:
    own = _special_id(inner, settings.get("eos_token"))
    ids = [] if own is None else [own]
    ids += _ids(generation.get("eos_token_id")) + _ids(config.get("eos_token_id"))
    ids += [
        token["id"]
        for token in document.get("added_tokens") or ()
        if token["special"] and token["content"] in END_TOKENS
    ]
    return tuple(dict.fromkeys(ids))


def _chat_template(folder: Path, settings: Mapping[str, Any]) -> str | None:
    own_file = folder / "chat_template.jinja"
    if own_file.is_file():
        return own_file.read_text(encoding="utf-8")
    template = settings.get("chat_template")
    if template is None:
        template = _optional_json(folder / "chat_template.json").get("chat_template")
    if isinstance(template, list):  # several named templates
        template = {entry["name"]: entry["template"] for entry in template}.get("default")
    return template


def _special_id(inner: tokenizers.Tokenizer, token: str | Mapping[str, Any] | None) -> int | None:
    if isinstance(token, Mapping):
        token = token.get("content")
    return None if token is None else inner.token_to_id(token)


def _ids(value: int | list[int] | None) -> list[int]:
    if value is None:
        return []
    return [value] if isinstance(value, int) else list(value)


def _optional_json(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_bytes())
    except ValueError as error:
        raise ModelError(f"cannot read {path}: {error}; fetch it again") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path} holds no JSON object; fetch it again")
    return value
