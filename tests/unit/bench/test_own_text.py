"""The texts that are measured where none are given."""

from leeway.bench.own_text import own_texts


def test_the_source_is_long_enough_and_raw():
    texts = own_texts()
    assert len({one.prompt_id for one in texts}) == len(texts) > 4
    assert all(isinstance(one.content, str) for one in texts)
    assert sum(len(one.content) for one in texts) > 200_000


def test_files_are_joined_in_order_of_their_names(tmp_path):
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "b.py").write_text("two\n")
    (tmp_path / "engine" / "a.py").write_text("one\n")
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "c.py").write_text("three\n")
    [text] = own_texts(tmp_path)
    assert (text.prompt_id, text.content) == ("source-engine", "one\n\n\ntwo\n")
