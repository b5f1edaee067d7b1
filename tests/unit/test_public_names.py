"""What `import leeway` offers."""

import leeway


def test_dir_lists_the_public_names_and_each_can_be_had():
    assert dir(leeway) == sorted(leeway.__all__)
    assert all(getattr(leeway, name) is not None for name in dir(leeway))
