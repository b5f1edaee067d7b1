"""Text to token ids and back, over the tokenizer that a model file describes.

In: `TokenizerData`. Out: ids, bytes, text. Decoding goes through bytes: each token stands for fixed
bytes whatever its neighbours, so that text can be streamed token by token and still be, joined,
what decoding all tokens at once gives. This room does not know what a model is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import tokenizers

from leeway.core.errors import ModelError, RequestError
from leeway.core.types import TokenizerData


class Tokenizer:
    """Encodes and decodes; safe to share between threads."""

    def __init__(self, data: TokenizerData) -> None:
        """Load the tokenizer.

        Raises:
            ModelError: the description is broken or decodes in a way that is not known.
        """
        try:
            self._inner = tokenizers.Tokenizer.from_str(data.tokenizer_json)
        except Exception as error:  # the library raises plain Exception
            raise ModelError(
                f"the model's tokenizer cannot be loaded ({error}); convert or fetch it again"
            ) from error
        self._inner.no_truncation()  # training settings that some files carry
        self._inner.no_padding()
        document = json.loads(data.tokenizer_json)
        self._decoding = _decoding(document.get("decoder"))
        self._added = {token["id"]: token for token in document.get("added_tokens") or ()}
        self._bytes: dict[int, bytes] = {}
        self._add_bos = data.add_bos
        self.bos_token_id = data.bos_token_id
        self.eos_token_ids = data.eos_token_ids
        self.vocab_size: int = self._inner.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str, *, add_special: bool = True) -> list[int]:
        """Return the ids of `text`; special tokens written out in it become their ids.

        With `add_special` the model's begin token comes first where the model wants one, unless
        the text already begins with it.

        Raises:
            RequestError: the text is not valid Unicode (an unpaired surrogate).
        """
        try:
            encoding = self._inner.encode(text, add_special_tokens=False)
        except (UnicodeEncodeError, TypeError) as error:
            raise RequestError(
                f"the text is not valid Unicode ({error}); remove the unpaired surrogate"
            ) from error
        ids: list[int] = encoding.ids
        bos = self.bos_token_id
        if add_special and self._add_bos and bos is not None and ids[:1] != [bos]:
            ids.insert(0, bos)
        return ids

    def decode(
        self, token_ids: Iterable[int], *, continues: bool = False, with_special: bool = False
    ) -> str:
        """Return the text of the ids; broken UTF-8 becomes U+FFFD.

        Special tokens are left out, or, `with_special`, written by their names. Where a tokenizer
        writes a space before the first word of a text, that space is dropped, unless the ids
        `continue` an earlier text.
        """
        read = self._shown_bytes if with_special else self.token_bytes
        raw = b"".join(map(read, token_ids))
        if self._decoding == "sentencepiece_prefix" and not continues:
            raw = raw.removeprefix(b" ")
        return raw.decode("utf-8", errors="replace")

    def _shown_bytes(self, token_id: int) -> bytes:
        return self.token_bytes(token_id) or (self.token_text(token_id) or "").encode()

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes a token stands for; empty for special and unknown ids."""
        known = self._bytes.get(token_id)
        if known is None:
            known = self._bytes[token_id] = self._read_bytes(token_id)
        return known

    def token_text(self, token_id: int) -> str | None:
        """Return the vocabulary's own name of an id, or None if there is no such id."""
        return self._inner.id_to_token(token_id) if token_id >= 0 else None

    def token_id(self, token: str) -> int | None:
        """Return the id of a token by its vocabulary name, or None."""
        return self._inner.token_to_id(token)

    def fingerprint(self) -> str:
        """Return a hash of every (id, token) pair: equal exactly if the vocabularies are."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        pairs = sorted(
            (index, token) for token, index in self._inner.get_vocab(with_added_tokens=True).items()
        )
        return hashlib.sha256(json.dumps(pairs).encode()).hexdigest()

    def _read_bytes(self, token_id: int) -> bytes:
        added = self._added.get(token_id)
        if added is not None:
            return b"" if added["special"] else added["content"].encode()
        token = self.token_text(token_id)
        if token is None:
            return b""
        if self._decoding == "byte_level":
            try:
                return bytes(map(_BYTE_OF_LETTER.__getitem__, token))
            except KeyError:  # a token from outside the byte alphabet stands for itself
                return token.encode()
        if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
            return bytes.fromhex(token[3:5])
        return token.replace("▁", " ").encode()


def _decoding(decoder: dict[str, Any] | None) -> str:
    """Return which of the known ways from tokens to bytes a decoder is.

    Raises:
        ModelError: none of them.
    """
    steps = [] if decoder is None else decoder.get("decoders", [decoder])
    kinds = [step["type"] for step in steps]
    if "ByteLevel" in kinds:
        return "byte_level"
    if "ByteFallback" in kinds or "Metaspace" in kinds:
        has_prefix = any(
            step["type"] == "Strip"
            or (step["type"] == "Metaspace" and step.get("prepend_scheme", "always") != "never")
            for step in steps
        )
        return "sentencepiece_prefix" if has_prefix else "sentencepiece"
    raise ModelError(
        f"the model's tokenizer decodes by {' + '.join(kinds) or 'nothing'}, which is not "
        "supported; byte-level and SentencePiece (byte fallback) tokenizers are"
    )


def _byte_letters() -> dict[str, int]:
    """Return {letter: byte} of byte-level BPE.

    Printable Latin-1 bytes are written as themselves; the others, in order, as the letters from
    U+0100 on.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): byte for byte in printable}
    return letters | {chr(0x100 + index): byte for index, byte in enumerate(others)}


_BYTE_OF_LETTER = _byte_letters()
