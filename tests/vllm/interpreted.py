"""Triton's own interpreter in the place of a compiler, so that Model Runner V2 runs on a CPU.

vLLM looks for a Triton that can compile for the CPU, which the released one cannot; interpreted
kernels need none. Slow: for tests of what is computed, not of how fast.
"""

import os


class NoDriver:
    """A driver that is there and never used."""

    @staticmethod
    def is_active():
        return True


def interpret():
    """Have kernels interpreted; before anything of vLLM is imported."""
    os.environ["TRITON_INTERPRET"] = "1"
    from triton.backends import Backend, backends
    from triton.runtime.interpreter import InterpreterBuilder

    backends.setdefault("cpu", Backend(compiler=None, driver=NoDriver))
    for name, place in (("create_masked_load", 1), ("create_masked_store", 2)):
        setattr(InterpreterBuilder, name, with_bool(getattr(InterpreterBuilder, name), place))


def with_bool(method, place):
    """Return a method whose mask, the argument at this place, is one of bools.

    `mask & scalar` is one of small integers in the interpreter, which its own store refuses.
    """

    def called(self, *args):
        args[place].data = args[place].data.astype(bool)
        return method(self, *args)

    return called
