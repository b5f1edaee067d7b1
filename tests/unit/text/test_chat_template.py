"""Expected prompts are byte for byte those of the reference library's own renderer."""

from datetime import datetime
from typing import Any

import pytest
from tests.support.tiny_models import CHAT_TEMPLATE, tiny_tokenizer_json

from leeway.core.errors import RequestError
from leeway.core.types import TokenizerData
from leeway.text.chat_template import ChatTemplate
from leeway.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer(TokenizerData(tiny_tokenizer_json(), None, 0, (2, 0)))
USER = [{"role": "user", "content": "Hi <b>&'\"é🙂\u2028</b>"}]
TALK = [
    {"role": "system", "content": "  Be brief. "},
    {"role": "user", "content": "a"},
    {"role": "assistant", "content": "b\n"},
    {"role": "user", "content": "c"},
]


def render(template: str, messages: list[dict[str, Any]], **extra: Any) -> str:
    return ChatTemplate(template, TOKENIZER).render(messages, **extra)


def test_a_conversation() -> None:
    expected = (
        "<|im_start|>system\n  Be brief. <|im_end|>\n<|im_start|>user\na<|im_end|>\n"
        "<|im_start|>assistant\nb\n<|im_end|>\n<|im_start|>user\nc<|im_end|>\n"
    )
    assert render(CHAT_TEMPLATE, TALK, add_generation_prompt=False) == expected
    assert render(CHAT_TEMPLATE, TALK) == f"{expected}<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("template", "messages", "expected"),
    [
        (
            "{{ messages | tojson }}",
            USER,
            '[{"role": "user", "content": "Hi <b>&\'\\"é🙂\u2028</b>"}]',
        ),
        (
            "{{ messages | tojson(ensure_ascii=True, sort_keys=True, separators=(',', ':')) }}",
            USER,
            '[{"content":"Hi <b>&\'\\"\\u00e9\\ud83d\\ude42\\u2028</b>","role":"user"}]',
        ),
        (
            "{{ messages | tojson(indent=2) }}",
            TALK[1:2],
            '[\n  {\n    "role": "user",\n    "content": "a"\n  }\n]',
        ),
        (
            "{% for m in messages %}\n  {% if m.role == 'system' %}\n    {% continue %}\n"
            "  {% endif %}\n  {{ m.content }}\n{% if loop.index > 2 %}{% break %}{% endif %}\n"
            "{% endfor %}\n",
            TALK,
            "  a\n  b\n\n",
        ),
        (
            "A\n{% for m in messages %}\n{% generation %}\n{{ m.content }}{% endgeneration %}\n"
            "{% endfor %}\nB\n",
            TALK,
            "A\n  Be brief. ab\ncB",
        ),
        (
            "{{ bos_token }}{{ eos_token }}{{ unknown }}|{{ messages[0]['nothing'] }}|"
            "{{ add_generation_prompt }}|{{ tools is none }}|{{ documents is none }}",
            USER,
            "<|endoftext|><|im_end|>||True|True|True",
        ),
        ("{%- for m in messages -%}  {{- m.content | trim }} {%- endfor %}", TALK, "Be brief.abc"),
        (
            "{% set ns = namespace(x=0) %}{% for m in messages %}{% set ns.x = ns.x + 1 %}"
            "{% endfor %}{{ ns.x }}",
            TALK,
            "4",
        ),
        ("{{ messages.__class__ }}", USER, ""),
    ],
)
def test_what_templates_rely_on(
    template: str, messages: list[dict[str, Any]], expected: str
) -> None:
    assert render(template, messages) == expected


def test_further_variables() -> None:
    template = "{% if enable_thinking %}think{% else %}answer{% endif %} {{ tools[0].name }}"
    assert render(template, USER, enable_thinking=True, tools=[{"name": "f"}]) == "think f"


def test_the_date_is_today() -> None:
    before, year, after = datetime.now(), render("{{ strftime_now('%Y') }}", []), datetime.now()
    assert year in {str(before.year), str(after.year)}


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ messages[9].content }}", "list object has no element 9"),
        ("{{ 'x' + 1 }}", "can only concatenate"),
        ("{{ 1/0 }}", "division by zero"),
        ("{% for i in range(10000000) %}{% endfor %}", "Range too big"),
        ("{% for m in messages %}", "broken: Unexpected end of template"),
        ("{{ messages | no_such_filter }}", "broken: No filter named 'no_such_filter'"),
    ],
)
def test_failures_are_the_requests(template: str, reason: str) -> None:
    with pytest.raises(RequestError, match=reason) as caught:
        render(template, USER)
    assert caught.value.param == "messages"
    assert caught.value.http_status == 400


def test_messages_are_not_changed() -> None:
    messages = [{"role": "user", "content": ["a"]}]
    with pytest.raises(RequestError, match="unsafe"):
        render("{{ messages[0].content.clear() }}", messages)
    assert messages == [{"role": "user", "content": ["a"]}]


def test_a_model_without_template() -> None:
    template = ChatTemplate(None, TOKENIZER)
    assert not template.exists
    with pytest.raises(RequestError, match=r"has no chat template.*/v1/completions"):
        template.render(USER)
    assert ChatTemplate("x", TOKENIZER).exists


@pytest.mark.parametrize(
    ("template", "reasons"),
    [(CHAT_TEMPLATE, False), ("<think></think>{{ messages }}", True), (None, False)],
)
def test_what_a_template_says_of_its_model(template: str | None, reasons: bool) -> None:
    one = ChatTemplate(template, TOKENIZER)
    assert one.reasons is reasons
    assert one.tool_dialect is None


def test_names_of_absent_tokens_are_empty() -> None:
    bare = Tokenizer(TokenizerData(tiny_tokenizer_json(), None, None, ()))
    assert ChatTemplate("[{{ bos_token }}{{ eos_token }}]", bare).render([]) == "[]"
