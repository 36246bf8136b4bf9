"""Instances have all their fields from the beginning: a name that comes late is a dict that is made late.

Why that is a fault where threads share them: actors/concurrency/shared_fields.py.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pytest

from tests.support.syntax import TOGETHER, Source, library

pytestmark = [pytest.mark.always, TOGETHER]
ELSEWHERE = ("BaseModel", "Error", "Exception", "Interrupt", "Timeout", "NamedTuple", "Protocol", "Server", "local")
"""Ends of the names of bases that keep fields in a way of their own, or whose ``__init__`` is not ours."""
RECORDS = ("dataclass", "slots=True")
"""Parts of decorators that see to all fields."""
BUILDS = ("__init__", "__post_init__", "__new__")
CHANGES = frozenset(("clear", "pop", "popitem", "setdefault", "update"))
OF_ONE_THREAD = {
    "ProcessGroups._follows_forks": "one for a process, so its class goes on learning names",
    "ProcessReader._follows_forks": "one for a process, so its class goes on learning names",
    "_Launch.begin": "in the thread that starts a tree",
}
MAY_CHANGE = {
    "actors/dispatch/remote.py": "an error that is just being made",
    "actors/dispatch/worker/worker_main.py": "the dict of a module",
    "actors/tasks/execution/work_elsewhere.py": "an object that is just being made",
    "actors/tasks/journal/dropped.py": "a copy that nobody else has",
    "trees/agents/langchain_events.py": "in the thread that builds it",
    "trees/agents/langgraph_state.py": "a function, and an object, that are just being made",
    "trees/agents/openai_chat_ends.py": "a copy that is just being made",
    "trees/agents/openai_models.py": "a copy that nobody else has",
    "trees/agents/tree_tool.py": "an error that is just being made",
}


@dataclass
class Class:
    """What one class says of its fields."""

    name: str
    bases: list[str]
    is_fixed: bool = False
    """True where it has slots, or a dataclass sets every field."""
    built: set[str] = field(default_factory=set)
    late: set[str] = field(default_factory=set)
    defaults: set[str] = field(default_factory=set)


def stored(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """Every ``owner.name = ...`` among them; the owner is empty where it is no plain name."""
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.value.id if isinstance(node.value, ast.Name) else "", node.attr


def may_be_replaced(code: ast.stmt) -> bool:
    """True for a default that stands in a class; what is marked as a constant, or is a text, stays as it is."""
    value, kind = getattr(code, "value", None), getattr(code, "annotation", None)
    text = isinstance(value, ast.Constant) and isinstance(value.value, str)
    return value is not None and not text and not (kind and ast.unparse(kind).startswith(("ClassVar", "Final")))


def class_of(code: ast.ClassDef) -> Class:
    found = Class(code.name, [ast.unparse(base).split("[")[0].rpartition(".")[2] for base in code.bases])
    found.is_fixed = any(mark in ast.unparse(each) for each in code.decorator_list for mark in RECORDS)
    methods = [each for each in code.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    for each in code.body:
        targets = (
            each.targets if isinstance(each, ast.Assign) else [each.target] if isinstance(each, ast.AnnAssign) else []
        )
        names = {target.id for target in targets if isinstance(target, ast.Name)}
        found.is_fixed |= "__slots__" in names
        found.defaults |= names if may_be_replaced(each) else set()
    for method in methods:
        marks = [ast.unparse(each) for each in method.decorator_list]
        if any("cached_property" in mark for mark in marks):
            found.late.add(method.name)
        if method.args.args and not any("classmethod" in mark or "staticmethod" in mark for mark in marks):
            own = method.args.args[0].arg
            names = {name for owner, name in stored(ast.walk(method)) if owner == own}
            (found.built if method.name in BUILDS else found.late).update(names)
    found.late -= {method.name for method in methods if any(".setter" in ast.unparse(x) for x in method.decorator_list)}
    return found


def late_names(sources: Iterable[Source]) -> set[str]:
    """Fields, as ``Class.name``, that an instance gets only after it was built."""
    classes = {node.name: class_of(node) for source in sources for node in source.of(ast.ClassDef)}
    anywhere = {
        name for source in sources for owner, name in stored(source.of(ast.Attribute)) if owner not in ("self", "cls")
    }

    def kin(one: Class) -> list[Class]:
        above = [each for base in one.bases if base in classes and base != one.name for each in kin(classes[base])]
        return [one, *above]

    def is_elsewhere(one: Class) -> bool:
        return any(base.endswith(ELSEWHERE) for each in kin(one) for base in [each.name, *each.bases])

    return {
        f"{one.name}.{name}"
        for one in classes.values()
        if not one.is_fixed and not is_elsewhere(one)
        for name in (one.late | one.defaults & anywhere) - {name for each in kin(one) for name in each.built}
    }


def changed_dicts(source: Source) -> list[int]:
    """Lines that change the dict of an instance."""

    def is_dict(node: ast.AST) -> bool:
        return (isinstance(node, ast.Attribute) and node.attr == "__dict__") or (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "vars"
        )

    return [
        node.lineno
        for node in (*source.of(ast.Attribute), *source.of(ast.Subscript))
        if (isinstance(node, ast.Attribute) and node.attr in CHANGES and is_dict(node.value))
        or (isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load) and is_dict(node.value))
    ]


def test_an_instance_gets_all_its_fields_while_it_is_built_or_belongs_to_one_thread() -> None:
    assert late_names(library()) == OF_ONE_THREAD.keys()


def test_only_the_dict_of_an_object_that_nobody_shares_is_changed() -> None:
    assert {source.name for source in library() if changed_dicts(source)} == MAY_CHANGE.keys()


@pytest.mark.parametrize(
    "breach",
    [
        "class A:\n    b = None\n    def c(self): self.b = 1",
        "class A:\n    def c(self): self.b = 1",
        "class A:\n    b = None\ndef c(a): a.b = 1",
        "class A:\n    @cached_property\n    def b(self): ...",
        "class A:\n    __slots__ = ()\nclass B(A):\n    def c(self): self.b = 1",
    ],
)
def test_a_late_field_is_found(breach: str) -> None:
    assert {name.rpartition(".")[2] for name in late_names([Source("a.py", breach)])} == {"b"}


@pytest.mark.parametrize(
    "legal",
    [
        "class A:\n    __slots__ = ('b',)\n    def c(self): self.b = 1",
        "class A:\n    def __init__(self): self.b = 0\n    def c(self): self.b = 1",
        "class A:\n    def __init__(self): self.b = 0\nclass B(A):\n    def c(self): self.b = 1",
        "class A:\n    b = None\ndef c(a): return a.b",
        "class A:\n    @property\n    def b(a): ...\n    @b.setter\n    def b(a, x): ...\n    def c(a): a.b = 1",
    ],
)
def test_what_is_built_whole_is_let_pass(legal: str) -> None:
    assert late_names([Source("a.py", legal)]) == set()


@pytest.mark.parametrize("breach", ["a.__dict__['b'] = 1", "vars(a).setdefault('b', 1)", "del a.__dict__['b']"])
def test_a_change_of_a_dict_is_found(breach: str) -> None:
    assert changed_dicts(Source("a.py", breach)) == [1]
