"""First program inside the sandbox: runs a solution, then its tests, then says how they went.

Given to a bare interpreter as source, so it imports nothing of ours and as little else as it can.
In: limits as arguments; a secret, the solution and its tests on standard input. Out: lines on
standard output. Only what ends with the secret is believed, and it is written behind the tests: a
solution that prints, or that leaves before its tests ran, has passed nothing.
"""

import os
import resource
import sys

NOBODY = 65534
MAX_DETAIL = 300
STARTED = b"started\n"


def main(arguments: list[str]) -> None:
    """Do what the arguments say: memory, CPU seconds, file bytes, drop, preload, then folders."""
    memory, cpu_s, file_bytes, must_drop = (int(word) for word in arguments[:4])
    preload, folders = arguments[4], arguments[5:]
    secret, solution_len, rest = sys.stdin.buffer.read().split(b"\n", 2)
    solution, tests = rest[: int(solution_len)], rest[int(solution_len) :]
    sys.path.extend(folders)
    if preload:
        __import__(preload)
    report = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    _limit(memory, cpu_s, file_bytes)
    if must_drop:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    os.write(report, STARTED)
    detail = _run(solution, tests)
    os.write(report, b"%s %s\n" % (secret, detail.encode("utf-8", "backslashreplace")))
    os._exit(0)


def _limit(memory: int, cpu_s: int, file_bytes: int) -> None:
    wanted = {
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_CPU: cpu_s,
        resource.RLIMIT_FSIZE: file_bytes,
        resource.RLIMIT_NOFILE: 64,
        resource.RLIMIT_CORE: 0,
    }
    for what, value in wanted.items():
        hard = resource.getrlimit(what)[1]
        least = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(what, (least, least))


def _run(solution: bytes, tests: bytes) -> str:
    """Return why the solution failed, or an empty string."""
    module = type(sys)("solution")
    sys.modules["solution"] = module  # dataclasses look their module up
    try:
        exec(compile(solution, "solution", "exec"), module.__dict__)
        # A copy: names that the tests define must not replace the solution's own.
        exec(compile(tests, "tests", "exec"), dict(module.__dict__))
    except MemoryError:
        return "MemoryError"
    except BaseException as error:
        first = str(error).strip().partition("\n")[0][:MAX_DETAIL]
        name = type(error).__name__
        return f"{name}: {first}" if first else name
    return ""


if __name__ == "__main__":
    main(sys.argv[1:])
