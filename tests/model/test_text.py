"""The real tokenizers; expected ids are those of an independent tokenizer on the same files."""

import json
import random
from pathlib import Path

import pytest

from leeway.models.gguf import GGUFFiles
from leeway.text.chat_template import ChatTemplate
from leeway.text.detokenizer import Detokenizer
from leeway.text.tokenizer import Tokenizer

pytestmark = pytest.mark.model

TOKEN_IDS = json.loads(Path(__file__).with_name("token_ids.json").read_text(encoding="utf-8"))
SMOLLM2: dict[str, list[int]] = TOKEN_IDS["smollm2"]
QWEN: dict[str, list[int]] = TOKEN_IDS["qwen"]


@pytest.fixture(scope="module")
def smollm2(smollm2_path: Path) -> GGUFFiles:
    return GGUFFiles(smollm2_path)


@pytest.fixture(scope="module")
def smollm2_tokenizer(smollm2: GGUFFiles) -> Tokenizer:
    return Tokenizer(smollm2.tokenizer)


@pytest.fixture(scope="module")
def qwen(qwen_coder_path: Path) -> GGUFFiles:
    return GGUFFiles(qwen_coder_path)


@pytest.mark.parametrize("text", SMOLLM2)
def test_smollm2_ids(smollm2_tokenizer: Tokenizer, text: str) -> None:
    ids = smollm2_tokenizer.encode(text)
    assert ids == SMOLLM2[text]
    plain = text.replace("<|im_start|>", "").replace("<|im_end|>", "")
    assert smollm2_tokenizer.decode(ids) == plain


def test_qwen_ids(qwen: GGUFFiles) -> None:
    tokenizer = Tokenizer(qwen.tokenizer)
    for text, ids in QWEN.items():
        assert tokenizer.encode(text) == ids, text
    assert tokenizer.fingerprint() == Tokenizer(qwen.tokenizer).fingerprint()


def test_two_models_have_two_fingerprints(smollm2_tokenizer: Tokenizer, qwen: GGUFFiles) -> None:
    assert smollm2_tokenizer.fingerprint() != Tokenizer(qwen.tokenizer).fingerprint()


def test_detokenizing_random_ids_joins_to_decoding_them(smollm2_tokenizer: Tokenizer) -> None:
    source = random.Random(3)
    for _ in range(200):
        ids = [source.randrange(smollm2_tokenizer.vocab_size) for _ in range(40)]
        detokenizer = Detokenizer(smollm2_tokenizer)
        text = "".join(detokenizer.add([index]) for index in ids) + detokenizer.finish()
        assert text == smollm2_tokenizer.decode(ids)


def test_smollm2_prompt(smollm2: GGUFFiles, smollm2_tokenizer: Tokenizer) -> None:
    template = ChatTemplate(smollm2.tokenizer.chat_template, smollm2_tokenizer)
    prompt = template.render([{"role": "user", "content": "hi"}])
    assert prompt == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
        "Face<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )
    ids = smollm2_tokenizer.encode(prompt, add_special=False)
    assert ids[0] == 1
    assert ids.count(1) == 3
    assert ids.count(2) == 2


def test_qwen_prompt_with_tools(qwen: GGUFFiles) -> None:
    template = ChatTemplate(qwen.tokenizer.chat_template, Tokenizer(qwen.tokenizer))
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"é": 1}}}]
    messages = [
        {"role": "user", "content": "w"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"type": "function", "function": {"name": "f", "arguments": {"x": 1, "s": "é"}}}
            ],
        },
        {"role": "tool", "content": "42"},
        {"role": "tool", "content": "43"},
    ]
    prompt = template.render(messages, tools=tools)
    assert prompt.startswith("<|im_start|>system\nYou are Qwen, created by Alibaba Cloud.")
    described = '{"type": "function", "function": {"name": "f", "parameters": {"é": 1}}}'
    assert f"<tools>\n{described}\n</tools>" in prompt
    assert prompt.endswith(
        "<|im_start|>user\nw<|im_end|>\n<|im_start|>assistant\n<tool_call>\n"
        '{"name": "f", "arguments": {"x": 1, "s": "é"}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\n<tool_response>\n42\n</tool_response>\n"
        "<tool_response>\n43\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )
