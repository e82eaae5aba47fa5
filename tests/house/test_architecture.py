"""The rules of the house that no linter knows (layers and cycles: `make lint`, import-linter)."""

import ast
from pathlib import Path

import pytest

import ellzero as ez

SOURCE = Path(ez.__file__).parent
MODULES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}
FAMILIES = {
    "sets": {name for name in ez.sets.__all__ if isinstance(getattr(ez.sets, name), type)},
    "risks": {name for name in ez.risks.__all__ if isinstance(getattr(ez.risks, name), type)},
}
# whether it is one at all may be asked anywhere: it is how arguments are checked; a Constant is a number
BASES = {"Constant", "ConstraintSet", "Risk"}


def place(path):
    return path.relative_to(SOURCE).as_posix()


def length(node):
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    return node.end_lineno - first + 1


@pytest.mark.parametrize(("kind", "limit"), [((ast.FunctionDef, ast.AsyncFunctionDef), 60), (ast.ClassDef, 300)])
def test_no_function_or_class_is_too_long(kind, limit):
    long = {
        f"{place(path)}::{node.name}": length(node)
        for path, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, kind) and length(node) - docstring_lines(node) > limit
    }
    assert not long


def docstring_lines(node):
    """Of the node and of what it contains: the mathematics and the parameters are no reason to cut code in two."""
    documented = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    strings = [n.body[0] for n in ast.walk(node) if isinstance(n, documented) and ast.get_docstring(n) is not None]
    return sum(string.end_lineno - string.lineno + 1 for string in strings)


def test_no_module_is_too_long():
    assert not {place(p): n for p in MODULES if (n := len(p.read_text(encoding="utf-8").splitlines())) > 400}


def names_of(node):
    return {
        n.id if isinstance(n, ast.Name) else n.attr for n in ast.walk(node) if isinstance(n, (ast.Name, ast.Attribute))
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_nobody_asks_of_which_class_a_set_or_a_risk_is(family):
    asked = []
    for path, tree in MODULES.items():
        if place(path).startswith(f"{family}/"):
            continue
        for node in ast.walk(tree):
            kinds = set()
            if isinstance(node, ast.Call) and names_of(node.func) & {"isinstance", "issubclass"}:
                kinds = names_of(node.args[1])
            elif isinstance(node, ast.MatchClass):
                kinds = names_of(node.cls)
            if kinds & (FAMILIES[family] - BASES):
                asked.append(f"{place(path)}:{node.lineno}")
    assert not asked, f"ask the object for the fact instead: {asked}"


def test_no_package_reaches_into_another():
    """Modules and names with an underscore belong to their package."""
    reached = []
    for path, tree in MODULES.items():
        package = path.parent.relative_to(SOURCE).parts
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or node.level == 0:
                continue
            base = (*package[: len(package) - node.level + 1], *(node.module.split(".") if node.module else ()))
            names = [a.name for a in node.names]
            if base[:1] == package[:1]:
                continue
            private = [p for p in (*base[1:], *names) if p.startswith("_") and not p.startswith("__")]
            if private:
                reached.append(f"{place(path)}:{node.lineno} imports {'.'.join(base)}: {private}")
    assert not reached
