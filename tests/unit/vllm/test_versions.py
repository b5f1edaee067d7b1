"""Which vLLM the hooks are for."""

import pytest

from leeway.vllm.versions import why_not, why_other


@pytest.mark.parametrize("version", ["0.32.0", "0.32.1+cpu", "0.33.0", "0.33.2rc1", "0.32.0.post1"])
def test_versions_in_the_range(version):
    assert why_not(version) is None


@pytest.mark.parametrize("version", ["0.31.9", "0.34.0", "1.0.0", "0.3.2", "dev", "0.320.0"])
def test_others_are_refused_with_the_range(version):
    reason = why_not(version)
    assert version in reason
    assert "0.32 up to, not including, 0.34" in reason


def replaced(tokens, probs, more=None):
    return tokens, probs, more


def test_a_function_with_the_expected_parameters():
    assert why_other(replaced, ("tokens", "probs")) is None


def test_a_changed_function_is_named_with_both_signatures():
    reason = why_other(replaced, ("tokens", "draft_probs", "logits"))
    assert "replaced takes (tokens, probs, more)" in reason
    assert "written for (tokens, draft_probs, logits)" in reason
