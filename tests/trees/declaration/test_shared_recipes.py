"""Workers that differ in their id only share a recipe: one more is looked at only in its place."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable
from functools import partial, partialmethod, wraps
from types import FrameType, FunctionType
from typing import Any

import pytest

from actors import ConfigError, Worker
from actors.model.spec import ChildSpec, DispatcherKind
from tests.support.crew import LONG_S
from trees import Backoff, Mailbox, SupervisorSpec, Tasks, Tree, WorkerSpec, start
from trees.declaration.build import build
from trees.declaration.check import require_valid

OF_ANOTHER_KIND = pytest.mark.filterwarnings("ignore:Assigning a code object:DeprecationWarning")
"""Later versions of Python advise against it."""
ROOT = SupervisorSpec(id="shop", children=[])


def echo(message: Any) -> Any:
    return message


async def echo_later(message: Any) -> Any:
    return message


def no_parameters() -> None:
    return


def spec_of(tree: Tree, id_: str) -> ChildSpec:
    return next(child.spec for child in tree._leadership.running.supervisors["shop"].table if child.id == id_)


def calls_of(act: Callable[[], object]) -> int:
    """How many functions of Python the calling thread calls meanwhile."""
    count = 0

    def hear(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event == "call"

    gc.collect()
    gc.disable()  # a collection calls what the garbage of other tests has for finalizers
    sys.setprofile(hear)
    try:
        act()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def least_calls(tree: Tree, specs: list[WorkerSpec]) -> int:
    """Of the starts of these: the wait for one may take more."""
    return min([calls_of(partial(tree.start_child, "shop", spec)) for spec in specs])


def test_one_more_worker_of_a_kind_shares_its_recipe_and_is_not_looked_at_again() -> None:
    with start(ROOT) as tree:
        first = calls_of(lambda: tree.start_child("shop", WorkerSpec(id="a", handle=echo, stall_s=60.0)))
        second = least_calls(tree, [WorkerSpec(id=id_, handle=echo, stall_s=60.0) for id_ in "bcd"])
        assert spec_of(tree, "a").recipe is spec_of(tree, "b").recipe
        assert (spec_of(tree, "a").id, spec_of(tree, "b").id) == ("a", "b")
        assert second < 65 < first
        assert tree.ref("shop/b").ask(1) == 1


def test_a_child_costs_the_same_calls_among_one_and_among_a_thousand_siblings() -> None:
    with start(ROOT) as tree:
        tree.start_child("shop", WorkerSpec(id="a", handle=echo))
        few = least_calls(tree, [WorkerSpec(id=id_, handle=echo) for id_ in "bcd"])
        tree.start_child("shop", WorkerSpec(id="many", handle=echo, pool=1000))
        assert abs(least_calls(tree, [WorkerSpec(id=id_, handle=echo) for id_ in "efg"]) - few) <= 10


@pytest.mark.parametrize(
    "given",
    [
        {"restart": "temporary"},
        {"shutdown": "brutal_kill"},
        {"shutdown": 7.0},
        {"required": False},
        {"start_timeout_s": None},
        {"stall_s": 90.0},
        {"backoff": Backoff(initial_s=3.0)},
        {"on_exhausted": "park"},
        {"pool": 2},
        {"dispatch": "loop"},
        {"mailbox": Mailbox(capacity=3)},
        {"expected": (KeyError,)},
        {"crash_on_ask_error": True},
        {"description": "another"},
    ],
    ids=lambda given: next(iter(given)),
)
def test_a_worker_that_differs_in_a_field_is_as_if_no_other_one_ran(given: dict[str, Any]) -> None:
    one, other = WorkerSpec(id="a", handle=echo), WorkerSpec(id="a", handle=echo, **given)
    alone = build(other)
    with start(ROOT) as tree:
        tree.start_child("shop", one.model_copy(update={"id": "plain"}))
        for id_ in ("b", "c"):
            tree.start_child("shop", other.model_copy(update={"id": id_}))
        found = [spec_of(tree, f"{id_}#0" if other.pool > 1 else id_) for id_ in ("b", "c")]
        for each in found:
            assert _facts(each) == _facts(alone)
        assert found[0].recipe is found[1].recipe
        assert found[0].recipe is not spec_of(tree, "plain").recipe


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("restart", "transient", "temporary"),
        ("shutdown", 7.0, 8.0),
        ("backoff", Backoff(initial_s=3.0), Backoff(initial_s=4.0)),
        ("mailbox", Mailbox(capacity=3), Mailbox(capacity=4)),
        ("expected", (KeyError,), (ValueError,)),
        ("dispatch", "pool", "loop"),
        ("description", "one", "other"),
    ],
)
def test_workers_that_give_the_same_field_another_value_are_told_apart(name: str, one: object, other: object) -> None:
    given: list[dict[str, Any]] = [{name: one}, {name: other}, {name: one}]
    alone = [_facts(build(WorkerSpec(id="alone", handle=echo, **each))) for each in given]
    with start(ROOT) as tree:
        for number, each in enumerate(given):
            tree.start_child("shop", WorkerSpec(id=f"w{number}", handle=echo, **each))
        assert [_facts(spec_of(tree, f"w{number}")) for number in range(3)] == alone
        assert alone[0] != alone[1]


def _facts(spec: ChildSpec) -> dict[str, object]:
    recipe: Any = spec.recipe
    its = {
        name: getattr(recipe, name)
        for name in recipe.__slots__
        if name not in {"make", "origin", "work", "__weakref__"}
    }
    return {name: getattr(spec, name) for name in spec.__slots__ if name not in {"id", "recipe"}} | its


def test_what_depends_on_the_place_is_checked_for_each() -> None:
    shop = SupervisorSpec(id="shop", tasks=Tasks(), children=[WorkerSpec(id="w", handle=echo)])
    with start(shop) as tree, pytest.raises(ConfigError, match="the id 'orchestrator' is taken"):
        tree.start_child("shop", WorkerSpec(id="orchestrator", handle=echo))
    ends = {"restart": "transient", "significant": True}
    first = SupervisorSpec(id="first", auto_shutdown="all_significant")
    with start(SupervisorSpec(id="shop", children=[first])) as tree:
        tree.start_child("shop/first", WorkerSpec(id="w", handle=echo, **ends))
        with pytest.raises(ConfigError, match="auto_shutdown='never'"):
            tree.start_child("shop", WorkerSpec(id="w", handle=echo, **ends))


@OF_ANOTHER_KIND
def test_a_function_with_other_code_is_looked_at_again() -> None:
    handle = FunctionType(echo.__code__, globals())
    with start(ROOT) as tree:
        tree.start_child("shop", WorkerSpec(id="a", handle=handle))
        handle.__code__ = echo_later.__code__
        assert tree.start_child("shop", WorkerSpec(id="b", handle=handle)).ask(1) == 1
        assert [_facts(spec_of(tree, id_))["where"] for id_ in "ab"] == [DispatcherKind.POOL, DispatcherKind.LOOP]
        handle.__code__ = no_parameters.__code__
        with pytest.raises(ConfigError, match="too many positional arguments"):
            tree.start_child("shop", WorkerSpec(id="c", handle=handle))


def test_functions_of_the_same_code_share_the_check_and_nothing_else() -> None:
    def adder(number: int) -> Callable[[int], int]:
        return lambda message: message + number

    with start(ROOT) as tree:
        refs = [tree.start_child("shop", WorkerSpec(id=f"w{number}", handle=adder(number))) for number in range(3)]
        assert [ref.ask(10) for ref in refs] == [10, 11, 12]
        recipes: list[Any] = [spec_of(tree, f"w{number}").recipe for number in range(3)]
        assert len(set(map(id, recipes))) == 3
        assert len({id(recipe.origin) for recipe in recipes}) == 1


def test_workers_with_kwargs_of_the_same_names_share_the_check_and_each_has_its_own() -> None:
    def adds(message: int, number: int = 0) -> int:
        return message + number

    with start(ROOT) as tree:
        calls = [
            calls_of(lambda id_=id_, given=given: tree.start_child("shop", WorkerSpec(id=id_, handle=adds, **given)))
            for id_, given in {
                "a": {"kwargs": {"number": 1}},
                "b": {"kwargs": {"number": 2}},
                "c": {"args": (3,)},
                "d": {"args": (4,)},
                "e": {},
            }.items()
        ]
        assert [tree.ref(f"shop/{id_}").ask(10) for id_ in "abcde"] == [11, 12, 13, 14, 10]
        assert calls[1] < calls[0] - 30
        assert calls[3] < calls[2] - 30
        for wrong in ({"kwargs": {"nimber": 1}}, {"args": (1, 2)}, {"args": (1,), "kwargs": {"number": 1}}):
            with pytest.raises(ConfigError, match="do not fit"):
                tree.start_child("shop", WorkerSpec(id="z", handle=adds, **wrong))  # type: ignore[arg-type]


@OF_ANOTHER_KIND
@pytest.mark.parametrize("is_new", [True, False], ids=["a new member", "other code"])
def test_a_class_that_was_changed_is_looked_at_again(*, is_new: bool) -> None:
    class Base(Worker):
        def on_receive(self, message: Any) -> Any:
            return message

    class Clerk(Base):
        pass

    with start(ROOT) as tree:
        tree.start_child("shop", WorkerSpec(id="a", actor=Clerk))
        tree.start_child("shop", WorkerSpec(id="b", actor=Clerk))
        assert spec_of(tree, "a").recipe is spec_of(tree, "b").recipe
        if is_new:
            Base.on_start = lambda self: setattr(self, "seen", [])  # type: ignore[method-assign]
        else:

            async def receives(self: Any, message: Any) -> Any:
                return self, message

            Base.on_receive.__code__ = receives.__code__  # type: ignore[attr-defined]
        tree.start_child("shop", WorkerSpec(id="c", actor=Clerk))
        facts = _facts(spec_of(tree, "c"))
        assert not facts["starts_plain"] if is_new else facts["where"] is DispatcherKind.LOOP


async def receives_later(*args: Any) -> Any:
    return args


def sync_code() -> FunctionType:
    return FunctionType((lambda *args: args).__code__, globals())


def turned(member: FunctionType) -> None:
    member.__code__ = receives_later.__code__


WAYS_TO_WRAP: dict[str, Callable[[FunctionType], Any]] = {
    "staticmethod": staticmethod,
    "classmethod": classmethod,
    "property": property,
    "partial": partial,
    "partialmethod": partialmethod,
    "staticmethod of a partial": lambda code: staticmethod(partial(code)),
    "wraps": lambda code: wraps(code)(lambda *_: code),
    "wraps in a staticmethod": lambda code: staticmethod(wraps(code)(lambda *_: code)),
}


@OF_ANOTHER_KIND
@pytest.mark.parametrize("way", [each for each in WAYS_TO_WRAP if each != "property" and "wraps" not in each])
def test_a_class_whose_member_has_other_code_inside_is_looked_at_again(way: str) -> None:
    code = sync_code()
    kind = type("Clerk", (Worker,), {"on_receive": WAYS_TO_WRAP[way](code)})
    with start(ROOT) as tree:
        tree.start_child("shop", WorkerSpec(id="a", actor=kind))
        turned(code)
        tree.start_child("shop", WorkerSpec(id="b", actor=kind))

        assert _facts(spec_of(tree, "b")) == _facts(build(WorkerSpec(id="b", actor=kind)))
        assert [_facts(spec_of(tree, id_))["where"] for id_ in "ab"] == [DispatcherKind.POOL, DispatcherKind.LOOP]


def needs_one(self: Any, one: Any) -> None:
    return


@OF_ANOTHER_KIND
def test_a_class_whose_init_has_other_defaults_or_wraps_other_code_is_looked_at_again() -> None:
    def init(self: Any, *, one: Any = 1) -> None:
        return

    def inner(self: Any) -> None:
        return

    by_keyword = type("Clerk", (Worker,), {"__init__": init})
    wrapping = type("Clerk", (Worker,), {"__init__": wraps(inner)(lambda *args: None)})
    with start(ROOT) as tree:
        for number, kind in enumerate((by_keyword, wrapping)):
            tree.start_child("shop", WorkerSpec(id=f"a{number}", actor=kind))
        init.__kwdefaults__ = None
        inner.__code__ = needs_one.__code__
        for number, kind in enumerate((by_keyword, wrapping)):
            with pytest.raises(ConfigError, match="missing a required"):
                tree.start_child("shop", WorkerSpec(id=f"b{number}", actor=kind))


@pytest.mark.parametrize("way", WAYS_TO_WRAP)
def test_a_class_shares_its_recipe_where_all_that_its_members_do_can_be_told(way: str) -> None:
    kind = type("Clerk", (Worker,), {"other": WAYS_TO_WRAP[way](sync_code()), "number": 7, "__slots__": ("a",)})
    with start(ROOT) as tree:
        for id_ in ("a", "b"):
            tree.start_child("shop", WorkerSpec(id=id_, actor=kind))
        is_shared = spec_of(tree, "a").recipe is spec_of(tree, "b").recipe
        assert is_shared == (way in {"staticmethod", "classmethod", "property"})


def test_workers_of_the_base_class_itself_share_a_recipe() -> None:
    with start(ROOT) as tree:
        for id_ in ("a", "b"):
            tree.start_child("shop", WorkerSpec(id=id_, actor=Worker))
        assert spec_of(tree, "a").recipe is spec_of(tree, "b").recipe


def test_a_recipe_keeps_no_function_alive_when_its_workers_are_gone() -> None:
    def handle(message: Any) -> Any:
        return message

    with start(ROOT) as tree:
        for id_ in ("a", "b"):
            tree.start_child("shop", WorkerSpec(id=id_, handle=handle))
            tree.terminate_child(f"shop/{id_}")
            tree.delete_child(f"shop/{id_}")
        gone = threading.Event()
        weakref.finalize(handle, gone.set)
        del handle
        gc.collect()
        assert gone.wait(LONG_S)


@pytest.mark.parametrize(
    "given", [{}, {"restart": "temporary"}, {"pool": 2}, {"kwargs": {"extra": 1}}, {"description": "x"}], ids=str
)
def test_declared_workers_of_one_function_are_built_each_as_if_it_stood_alone(given: dict[str, Any]) -> None:
    def handle(message: Any, extra: int = 0) -> Any:
        return message, extra

    others = [WorkerSpec(id=f"w{number}", handle=handle) for number in range(3)]
    children = [*others, WorkerSpec(id="odd", handle=handle, **given), others[0].model_copy(update={"id": "last"})]
    with start(SupervisorSpec(id="shop", children=children)) as tree:
        for child in children:
            built, alone = spec_of(tree, f"{child.id}#0" if child.pool > 1 else child.id), build(child)
            assert built.id == child.id
            assert _facts(built) == _facts(alone)
        assert len({id(spec_of(tree, id_).recipe) for id_ in ("w0", "w1", "w2", "last")}) == 1


@pytest.mark.parametrize("wrong", [{"pool": 2, "dispatch": "loop"}, {"args": (1, 2)}, {"timeout_s": 3.0}], ids=str)
def test_each_of_many_workers_is_checked_in_what_makes_it_different(wrong: dict[str, Any]) -> None:
    fine = [WorkerSpec(id=f"w{number}", handle=echo) for number in range(3)]
    odd = [WorkerSpec(id=f"odd{number}", handle=echo, **wrong) for number in range(2)]
    if "pool" in wrong:
        odd = [each.model_copy(update={"mailbox": Mailbox(capacity=2), "run": echo, "handle": None}) for each in odd]
    with pytest.raises(ConfigError) as caught:
        start(SupervisorSpec(id="shop", children=[*fine, *odd, fine[0].model_copy(update={"id": "w3"})]))
    assert {problem.path.split("/")[1].split(".")[0] for problem in caught.value.problems} == {"odd0", "odd1"}


def test_a_thousand_declared_workers_of_one_kind_are_checked_and_built_with_few_calls_each() -> None:
    children = [WorkerSpec(id=f"w{number}", handle=echo) for number in range(1000)]
    spec = SupervisorSpec(id="shop", children=children)
    assert calls_of(lambda: build(spec)) < 8 * len(children)
    assert calls_of(lambda: require_valid(spec)) < 12 * len(children)
