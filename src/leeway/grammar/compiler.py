"""Compiling grammars for one vocabulary, each once.

In: a grammar as it was asked for. Out: the state that a request walks through it. Compiled grammars
are kept, the least recently used leave first; threads may compile at the same time.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

import llguidance

from leeway.core.errors import RequestError
from leeway.core.types import Grammar, SamplingParams
from leeway.grammar.source import refusal, source_text
from leeway.grammar.state import GrammarState

MAX_KEPT = 64


class Vocabulary:
    """A vocabulary as the grammar library wants it: an object with these names."""

    is_tokenizer_wrapper = True

    def __init__(
        self,
        token_bytes: Callable[[int], bytes],
        encode: Callable[[str], list[int]],
        vocab_size: int,
        eos_token_ids: Sequence[int],
    ) -> None:
        """Read every token.

        Args:
            token_bytes: the bytes of an id; empty for special and unknown ids, which no grammar
                can then produce.
            encode: text to ids.
            vocab_size: columns of the target's rows, perhaps more than there are tokens.
            eos_token_ids: what ends an answer.
        """
        self.eos_token_ids = frozenset(eos_token_ids)
        self.eos_token_id = min(eos_token_ids, default=0)
        self.bos_token_id = None
        self.tokens = [token_bytes(token_id) for token_id in range(vocab_size)]
        ends = self.eos_token_ids
        self.special_token_ids = [
            token_id for token_id, raw in enumerate(self.tokens) if not raw or token_id in ends
        ]
        for token_id in self.special_token_ids:
            self.tokens[token_id] = b"<special %d>" % token_id
        self._encode = encode

    def __call__(self, text: str | bytes) -> list[int]:
        """Return the ids of a text."""
        return self._encode(text if isinstance(text, str) else text.decode(errors="replace"))


class GrammarCompiler:
    """Compiles grammars; `read_vocabulary` is called at the first one."""

    def __init__(self, read_vocabulary: Callable[[], Vocabulary]) -> None:
        self._read_vocabulary = read_vocabulary
        self._building = threading.Lock()
        self._lock = threading.Lock()  # of `_kept`; never held while something is compiled
        self._vocabulary: Vocabulary | None = None
        self._tokenizer: llguidance.LLTokenizer | None = None
        self._kept: OrderedDict[Grammar, GrammarState] = OrderedDict()

    def compile(self, grammar: Grammar) -> None:
        """Compile a grammar, unless it is kept already.

        Raises:
            RequestError: it is malformed, too large, or no answer has this form.
        """
        self._compiled(grammar)

    def start(self, grammar: Grammar) -> GrammarState:
        """Return the state of an answer that has not begun. Raises what `compile` raises.

        Waits for another thread's compilation only where this grammar is not kept.
        """
        return self._compiled(grammar).copy()

    def _compiled(self, grammar: Grammar) -> GrammarState:
        state = self._find(grammar)
        if state is not None:
            return state
        with self._building:
            state = self._find(grammar)
            if state is None:
                state = self._build(grammar)
                with self._lock:
                    self._kept[grammar] = state
                    if len(self._kept) > MAX_KEPT:
                        self._kept.popitem(last=False)
        return state

    def _find(self, grammar: Grammar) -> GrammarState | None:
        with self._lock:
            state = self._kept.get(grammar)
            if state is not None:
                self._kept.move_to_end(grammar)
        return state

    def _build(self, grammar: Grammar) -> GrammarState:
        vocabulary, tokenizer = self._load(grammar)
        matcher = llguidance.LLMatcher(tokenizer, source_text(grammar), log_level=0)
        if matcher.is_error():
            raise refusal(grammar, matcher.get_error())
        state = GrammarState(matcher, vocabulary.eos_token_ids, len(vocabulary.tokens), grammar)
        state.check_begins()
        return state

    def _load(self, grammar: Grammar) -> tuple[Vocabulary, llguidance.LLTokenizer]:
        if self._vocabulary is None or self._tokenizer is None:
            self._vocabulary = vocabulary = self._read_vocabulary()
            if not vocabulary.eos_token_ids:
                raise refusal(grammar, "this model has no end token, so no answer of it ends")
            self._tokenizer = llguidance.LLTokenizer(
                vocabulary,  # type: ignore[arg-type]  # it asks for these names, not this class
                n_vocab=len(vocabulary.tokens),
                eos_token=sorted(vocabulary.eos_token_ids),
            )
        return self._vocabulary, self._tokenizer


def check_beside_grammar(grammar: Grammar, sampling: SamplingParams) -> None:
    """Raise RequestError for what would make an answer go on where the grammar ends."""
    for name, value, off in (
        ("min_tokens", sampling.min_tokens, 0),
        ("ignore_eos", sampling.ignore_eos, False),
    ):
        if value != off:
            raise RequestError(
                f"{name} is {str(value).lower()} beside {grammar.param}, which decides where an "
                f"answer may end; allowed: {str(off).lower()}",
                param=name,
            )
