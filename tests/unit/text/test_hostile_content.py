"""What people write is data to a template, never part of it."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tabular_engine import letter_tokenizer

from leeway.core.errors import RequestError
from leeway.text.chat_template import ChatTemplate

TEMPLATE = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m.content }}</{{ m.role }}>\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
HOSTILE = st.sampled_from(
    [
        "{{ 7 * 7 }}",
        "{% for x in range(10**9) %}x{% endfor %}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ raise_exception('out') }}",
        "{% endfor %}",
        "{#",
        "\x00\x1b[2J",
        "\r\n\u2028\u202e",
        "<assistant>",
    ]
)
TEXTS = st.lists(st.text(max_size=6) | HOSTILE, max_size=4).map("".join)


def template(source=TEMPLATE):
    return ChatTemplate(source, letter_tokenizer(4))


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", "system"]), TEXTS), max_size=4))
def test_content_is_written_as_it_is(conversation):
    messages = [{"role": role, "content": content} for role, content in conversation]
    expected = "".join(f"<{role}>{content}</{role}>\n" for role, content in conversation)
    assert template().render(messages) == expected + "<assistant>"


JSON_LIKE = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
SOURCES = st.sampled_from(
    [
        TEMPLATE,
        "{{ messages | tojson }}",
        "{{ messages[0].content + 'x' }}",
        "{{ messages[-1]['content'].strip().split('>')[3] }}",
        "{% set ns = namespace(a=0) %}{% for m in messages %}{% set ns.a = ns.a + 1 %}"
        "{% endfor %}{{ ns.a }}",
        "{{ messages.__class__.__base__ }}",
        "{{ messages.append(1) }}",
    ]
)


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(SOURCES, st.lists(st.dictionaries(st.sampled_from(["role", "content"]), JSON_LIKE)))
def test_what_cannot_be_rendered_is_the_requests_mistake(source, messages):
    try:
        assert isinstance(template(source).render(messages), str)
    except RequestError as error:
        assert error.param == "messages"
