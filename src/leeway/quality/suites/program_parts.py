"""What of a program a function needs: its definitions, without calls, prints and tests around it.

In: Python source. Out: the statements at top level that the named function reaches, in their order.
Executes nothing.
"""

from __future__ import annotations

import ast
import symtable
import threading
import warnings
from collections.abc import Iterator, Sequence

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)
_parsing = threading.Lock()


def parse(source: str) -> ast.Module | None:
    """Return the program, or None if it is none that could run."""
    with _parsing, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about escapes in strings: not ours to judge
        try:
            module = ast.parse(source)
            compile(module, "solution", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    return module


def defines(module: ast.Module | None, name: str) -> bool:
    """Return whether a statement at top level gives a name its value."""
    return module is not None and any(name in _bound(one) for one in module.body)


def defined_names(module: ast.Module) -> set[str]:
    """Return all names that statements at top level give a value."""
    return {name for statement in module.body for name in _bound(statement)}


def used_names(module: ast.Module) -> set[str]:
    """Return all names that are looked up outside functions' own scopes."""
    return {name for statement in module.body for name in _used(statement)}


def is_stub(module: ast.Module, name: str) -> bool:
    """Return whether a function is there but does nothing: a docstring, `pass`, `...`, an error."""
    found = [one for one in module.body if isinstance(one, _DEFINITIONS) and one.name == name]
    return bool(found) and all(
        isinstance(one, (ast.Pass, ast.Raise))
        or (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
        for one in found[-1].body
    )


def needed_part(source: str, module: ast.Module, *names: str) -> str:
    """Return the lines of all statements that some names reach; comments between them go."""
    kept: set[int] = set()
    wanted, seen = [*names], set[str]()
    while wanted:
        current = wanted.pop()
        seen.add(current)
        for number, statement in enumerate(module.body):
            if number in kept or not _concerns(statement, current):
                continue
            kept.add(number)
            wanted += [one for one in _used(statement) if one not in seen]
    return _lines(source, [module.body[number] for number in sorted(kept)])


def _concerns(statement: ast.stmt, name: str) -> bool:
    """Return whether a statement has a part in what a reached name means."""
    if isinstance(statement, ast.ImportFrom):
        is_everywhere = statement.module == "__future__" or statement.names[0].name == "*"
        return is_everywhere or name in _bound(statement)
    if isinstance(statement, (*_DEFINITIONS, *_IMPORTS)):
        return name in _bound(statement)
    if isinstance(statement, ast.Assert) or _is_main_guard(statement):
        return False
    if _sets_recursion_limit(statement):
        return True
    return name in _bound(statement) or name in _changed(statement)


def _bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement gives a value in its own scope."""
    found: set[str] = set()
    for node in _own_nodes(statement):
        if isinstance(node, _DEFINITIONS):
            found.add(node.name)
        elif isinstance(node, _IMPORTS):
            found.update(one.asname or one.name.partition(".")[0] for one in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def _changed(statement: ast.stmt) -> set[str]:
    """Return the names whose values a statement changes in place: x[0] = 1, x.y = 1, x.add(1)."""
    found = set()
    for node in _own_nodes(statement):
        root: ast.AST = node
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            root = node.value.func
        elif not isinstance(getattr(node, "ctx", None), ast.Store):
            continue
        if not isinstance(root, (ast.Subscript, ast.Attribute)):
            continue
        while isinstance(root, (ast.Subscript, ast.Attribute)):
            root = root.value
        if isinstance(root, ast.Name):
            found.add(root.id)
    return found


def _used(statement: ast.stmt) -> set[str]:
    """Return the names that a statement takes from the module, inside functions too."""
    try:
        with _parsing, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            top = symtable.symtable(ast.unparse(statement), "solution", "exec")
    except (RecursionError, SyntaxError):  # nested too deeply: every name that is read
        return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    found, tables = _changed(statement), [top]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        found |= {
            one.get_name()
            for one in table.get_symbols()
            if (one.is_referenced() if table is top else one.is_global())
        }
    return found


def _own_nodes(statement: ast.AST) -> Iterator[ast.AST]:
    """Yield a statement and what it holds, without the insides of functions and classes."""
    waiting = [statement]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (*_FUNCTIONS, ast.ClassDef, ast.GeneratorExp)):
            waiting.extend(ast.iter_child_nodes(node))


def _is_main_guard(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and any(
        isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(statement.test)
    )


def _sets_recursion_limit(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and any(
        isinstance(node, ast.Attribute) and node.attr == "setrecursionlimit"
        for node in ast.walk(statement)
    )


def _lines(source: str, statements: Sequence[ast.stmt]) -> str:
    lines = source.splitlines()
    numbers: dict[int, None] = {}
    for statement in statements:
        decorators = statement.decorator_list if isinstance(statement, _DEFINITIONS) else []
        first = min([statement.lineno, *(one.lineno for one in decorators)])
        assert statement.end_lineno is not None
        numbers.update(dict.fromkeys(range(first, statement.end_lineno + 1)))
    return "".join(f"{lines[number - 1]}\n" for number in sorted(numbers))
