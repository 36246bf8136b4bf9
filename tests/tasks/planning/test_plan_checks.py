"""What a plan is told before anything of it runs: every problem at once, and what is merely doubtful."""

import gc
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.model.errors import Problem
from actors.tasks.model.executable import ExecutableInfo
from actors.tasks.model.task import Budget, Plan, Subtask
from actors.tasks.planning.plan_validation import Candidates, check_plan, resolved_plan
from tests.support.operations import counted_here
from tests.tasks.planning.test_planners import row

ROWS = (row("search", "find"), row("code", "write", "find"), row("review", state="parked"))


def check(
    *subtasks: Subtask, rows: tuple[ExecutableInfo, ...] = ROWS, **others: Any
) -> tuple[list[Problem], list[str]]:
    said: dict[str, Any] = {"task_id": "7f3a", "max_subtasks": 50, "budget": None}
    return check_plan(Plan(list(subtasks)), rows, **(said | others))


def wrong(*subtasks: Subtask, **others: Any) -> list[str]:
    return [str(problem) for problem in check(*subtasks, **others)[0]]


def resolved(subtask: Subtask, rows: tuple[ExecutableInfo, ...]) -> Subtask:
    return Candidates(rows).resolved(subtask)


def boom(subtask: Subtask) -> int:
    raise RuntimeError(subtask.instruction)


def an_undo(task: object, result: object, context: object) -> None: ...


A = Subtask("a", "x", "search")


# -- problems ----------------------------------------------------------------------------------------------------


def test_a_plan_that_fits_has_no_problems_and_no_warnings() -> None:
    plan = (A, Subtask("b", "x", capability="write", depends_on=["a"]), Subtask("c", "x", "review", undo="code"))

    assert check(*plan, budget=Budget(1), ancestry=("shop/elsewhere",), goal="something else") == ([], [])


@pytest.mark.parametrize(
    ("subtasks", "said"),
    [
        ([], "task 7f3a: the plan has no subtasks. Give at least one."),
        ([Subtask("a", "x", "serch")], "task 7f3a/a.worker: there is no worker 'serch'. Did you mean 'search'?"),
        ([Subtask("a", "x", "zzz")], "task 7f3a/a.worker: there is no worker 'zzz'. Known: code, review, search."),
        (
            [Subtask("a", "x", capability="paint")],
            "task 7f3a/a.capability: no worker has capability 'paint'. Known: find, write.",
        ),
        (
            [Subtask("a", "x", capability="rite")],
            "task 7f3a/a.capability: no worker has capability 'rite'. Did you mean 'write'? Known: find, write.",
        ),
        (
            [Subtask("serch", "x")],
            (
                "task 7f3a/serch: names neither a worker nor a capability. "
                "Its id is neither the one of a worker nor a capability. Did you mean 'search'?"
            ),
        ),
        (
            [Subtask("a", "x", "search", "write")],
            (
                "task 7f3a/a.worker: 'search' does not have capability 'write'. "
                "It has: find. Name another worker, or leave one of the two out."
            ),
        ),
        ([A, A, A], "task 7f3a/a.id: 3 subtasks have the id 'a'. Give each an id of its own."),
        (
            [Subtask("fetch", "x", "search"), Subtask("b", "x", "search", depends_on=["fetsh"])],
            "task 7f3a/b.depends_on: there is no subtask 'fetsh'. Did you mean 'fetch'?",
        ),
        (
            [Subtask("a", "x", "search", depends_on=["zzz"])],
            "task 7f3a/a.depends_on: there is no subtask 'zzz'. Name the id of a subtask of this plan.",
        ),
        (
            [Subtask("a", "x", "search", depends_on=["a"])],
            "task 7f3a/a.depends_on: depends on itself. Leave its own id out.",
        ),
        (
            [Subtask("a", "x", "search", depends_on=["b"]), Subtask("b", "x", "search", depends_on=["a"])],
            (
                "task 7f3a/a.depends_on: a cycle: a > b > a, each depends on the next. "
                "Leave out the dependency whose result is not needed."
            ),
        ),
        (
            [Subtask("a", "x", "search", undo="serch")],
            "task 7f3a/a.undo: there is no worker 'serch'. Did you mean 'search'? Or write 'module:attr'.",
        ),
        (
            [Subtask("a", "x", "search", undo="no_such_module:attr")],
            (
                "task 7f3a/a.undo: 'no_such_module:attr' cannot be imported (ModuleNotFoundError). "
                "Correct it: 'module:attr', or a worker."
            ),
        ),
        (
            [Subtask("a", "x", "search", undo="math:nothing")],
            (
                "task 7f3a/a.undo: 'math:nothing' cannot be imported (AttributeError). "
                "Correct it: 'module:attr', or a worker."
            ),
        ),
        (
            [Subtask("a", "x", "search", undo="math:pi")],
            (
                "task 7f3a/a.undo: 'math:pi' is a float, which cannot be called. "
                "Name a function of (task, result, context)."
            ),
        ),
        (
            [Subtask.model_construct(id="a", instruction="x", worker="search", depends_on=[], inputs={}, timeout_s=-1)],
            (
                "task 7f3a/a.timeout_s: expected a number of seconds, got -1. Use more than 0 and at most "
                "1,000,000,000, "
                "or leave it out."
            ),
        ),
        (
            [Subtask("a", "x", "search", budget=Budget(5), estimate=Budget(9))],
            "task 7f3a/a.budget: estimated tokens 9, budget 5. Give it more, or less to do.",
        ),
    ],
    ids=lambda value: value.split(". ")[0].split("/")[-1] if isinstance(value, str) else "",
)
def test_each_mistake_is_told_with_its_place_and_what_to_do(subtasks: list[Subtask], said: str) -> None:
    assert wrong(*subtasks) == [said]


def test_all_problems_are_told_at_once() -> None:
    bad = [
        Subtask("a", "x", "nobody", depends_on=["a", "ghost"]),
        Subtask("a", "x", capability="nothing", undo="no_such_module:x"),
        Subtask("c", "x", "search", depends_on=["d"]),
        Subtask("d", "x", "search", depends_on=["c"]),
    ]

    problems, _ = check(*bad, max_subtasks=3)

    assert sorted(problem.path for problem in problems) == [
        "task 7f3a",
        "task 7f3a/a.capability",
        "task 7f3a/a.depends_on",
        "task 7f3a/a.depends_on",
        "task 7f3a/a.id",
        "task 7f3a/a.undo",
        "task 7f3a/a.worker",
        "task 7f3a/c.depends_on",
    ]


def test_more_than_max_subtasks_is_a_problem_and_as_many_is_none() -> None:
    three = [Subtask(f"s{n}", "x", "search") for n in range(3)]

    assert wrong(*three, max_subtasks=3) == []
    assert "the plan has 3 subtasks, at most 2 are accepted" in wrong(*three, max_subtasks=2)[0]


def test_every_knot_is_named_and_each_once() -> None:
    def ring(*names: str) -> list[Subtask]:
        return [Subtask(name, "x", "search", depends_on=[names[n - 1]]) for n, name in enumerate(names)]

    said = wrong(*ring("a", "b", "c"), *ring("p", "q"), Subtask("z", "x", "search", depends_on=["a"]))

    assert [line.split(", ")[0].split("cycle: ")[1] for line in said] == ["a > c > b > a", "p > q > p"]


def test_a_long_ring_is_found_without_a_stack_overflow() -> None:
    size = 3_000
    ring = [Subtask(f"s{n}", "x", "search", depends_on=[f"s{(n + 1) % size}"]) for n in range(size)]

    [said] = wrong(*ring, max_subtasks=size)

    assert "> ..." in said


def test_a_diamond_is_no_cycle_also_where_a_dependency_is_named_twice() -> None:
    left, right = (Subtask(name, "x", "search", depends_on=["a", "a"]) for name in ("left", "right"))

    assert wrong(A, left, right, Subtask("end", "x", "search", depends_on=["left", "right"])) == []


def test_an_undo_that_imports_and_a_worker_as_undo_are_fine() -> None:
    undos = [f"{__name__}:an_undo", "code"]

    assert wrong(*(Subtask(f"s{n}", "x", "search", undo=undo) for n, undo in enumerate(undos))) == []


def test_a_parked_worker_may_be_named() -> None:
    assert wrong(Subtask("a", "x", "review")) == []


# -- who waits ---------------------------------------------------------------------------------------------------


def test_a_worker_that_waits_for_this_task_is_refused_with_the_chain() -> None:
    said = wrong(Subtask("a", "x", "search"), ancestry=("shop/review", "shop/search", "shop/team"))

    assert said == [
        (
            "task 7f3a/a.worker: shop/search > shop/team > shop/search: 'shop/search' would wait for itself. "
            "Give it to somebody who does not wait for this task."
        )
    ]


def test_a_capability_is_refused_only_when_all_who_have_it_wait() -> None:
    needs = Subtask("a", "x", capability="find")

    assert wrong(needs, ancestry=("shop/search",)) == []
    assert (
        "a.capability: shop/search > shop/code > shop/search" in wrong(needs, ancestry=("shop/search", "shop/code"))[0]
    )


# -- resolving ---------------------------------------------------------------------------------------------------


def test_a_subtask_without_worker_and_capability_is_resolved_by_its_id() -> None:
    assert resolved(Subtask("search", "x"), ROWS).worker == "search"
    assert resolved(Subtask("write", "x"), ROWS).capability == "write"
    assert wrong(Subtask("search", "x"), Subtask("write", "x")) == []


def test_an_id_that_is_both_means_the_worker() -> None:
    one = resolved(Subtask("find"), (row("find"), row("other", "find")))

    assert (one.worker, one.capability) == ("find", None)


def test_resolving_leaves_alone_what_says_it_or_cannot_be_known() -> None:
    said, unknown = Subtask("search", worker="code"), Subtask("ghost")

    assert resolved(said, ROWS) is said
    assert resolved(unknown, ROWS) is unknown


def test_resolving_keeps_all_other_fields() -> None:
    one = Subtask("search", "x", depends_on=["b"], timeout_s=3, undo="code")

    assert resolved(one, ROWS) == one.model_copy(update={"worker": "search"})


def test_a_plan_is_resolved_as_a_whole_and_kept_where_nothing_is_missing() -> None:
    whole = Plan([A])

    assert resolved_plan(whole, ROWS) is whole
    assert [one.worker for one in resolved_plan(Plan([A, Subtask("code")]), ROWS).subtasks] == ["search", "code"]


# -- warnings ----------------------------------------------------------------------------------------------------


def line(*instructions: str, **others: Any) -> list[Subtask]:
    return [
        Subtask(f"step{n}", text, "search", depends_on=[f"step{n - 1}"] if n else [], **others)
        for n, text in enumerate(instructions)
    ]


def test_a_line_without_a_flow_of_data_is_warned_about() -> None:
    problems, warnings = check(*line("count cats", "count dogs", "count birds"))

    assert problems == []
    assert warnings == [
        "step0 > step1 > step2 run one after the other, though none mentions the one before it; do they need to?"
    ]


@pytest.mark.parametrize(
    "subtasks",
    [
        line("count cats", "count dogs"),
        line("count cats", "sort them", "print them"),
        line("count cats", "sort what step 0 gave", "print the result of step1"),
        line("", "", ""),
        line("count cats", "count dogs", "count birds", undo="code"),
        [*line("count cats", "count dogs"), Subtask("step2", "x", "search", depends_on=["step0", "step1"])],
        [A, *(Subtask(f"s{n}", "count", "search", depends_on=["a"]) for n in range(3))],
        [A, *(Subtask(n, "count", "search", depends_on=[d]) for n, d in (("b", "a"), ("c", "b"), ("d", "a")))],
        [*line("count cats", "count dogs"), Subtask("c", "pay", "search", depends_on=["step1"], undo="code")],
        [
            Subtask("a", "count", "search"),
            Subtask("b", "print", "code", depends_on=["a"], inputs={"of": "a search"}),
            Subtask("c", "keep", "review", depends_on=["b"], inputs={"code": 1}),
        ],
    ],
)
def test_what_is_no_needless_line_is_not_warned_about(subtasks: list[Subtask]) -> None:
    assert check(*subtasks) == ([], [])


def test_a_goal_that_says_the_order_itself_is_not_warned_about() -> None:
    steps = line("count cats", "count dogs", "count birds")

    assert check(*steps, goal="count cats, then dogs, then birds")[1] == []


def test_one_subtask_for_a_goal_that_speaks_of_several_workers_is_warned_about() -> None:
    said = check(Subtask("all", "x", "search"), goal="search the docs, then code it and review it")[1]

    assert said == ["one subtask (all) for everything, although the goal speaks of code, review too"]


@pytest.mark.parametrize(
    ("only", "goal"),
    [
        (Subtask("all", "x", "search"), "search the docs"),
        (Subtask("all", "x", "search"), ""),
        (Subtask("all", "x", "code"), "find it and write it"),
        (Subtask("all", "x", "search"), "do something else"),
    ],
)
def test_one_subtask_is_enough_where_one_worker_is_meant_or_can_do_it_all(only: Subtask, goal: str) -> None:
    assert check(only, goal=goal) == ([], [])


# -- any plan ----------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c", "search", "code", "find", "write", "ghost", "x:y", "math:pi"])
IDS = st.sampled_from(["a", "b", "c", "search", "find", "ghost"])
AMOUNTS = st.none() | st.integers(0, 10**6)
BUDGETS = st.none() | st.builds(Budget, AMOUNTS, AMOUNTS, AMOUNTS)
SUBTASKS = st.builds(
    Subtask,
    IDS,
    st.text(max_size=20),
    st.none() | NAMES,
    st.none() | NAMES,
    depends_on=st.lists(IDS, max_size=4),
    inputs=st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=2),
    undo=st.none() | NAMES,
    budget=BUDGETS,
    estimate=BUDGETS,
)
ESTIMATES = st.sampled_from([None, 5, -1, "x", boom, Budget(3), {"cost": 1}, {"x": 1}])


@pytest.mark.slow
@given(st.lists(SUBTASKS, max_size=8), ESTIMATES, BUDGETS, st.lists(NAMES, max_size=3), st.text(max_size=30))
def test_a_check_never_raises_and_a_plan_without_problems_can_run(
    subtasks: list[Subtask], estimate: object, budget: Budget | None, waiting: list[str], goal: str
) -> None:
    rows = (row("search", "find", estimate=estimate), row("code", "write", "find"))

    problems, warnings = check(
        *subtasks, rows=rows, budget=budget, ancestry=tuple(f"shop/{name}" for name in waiting), goal=goal
    )

    assert all(isinstance(one, str) for one in warnings)
    if not problems:
        done: set[str] = set()
        while ready := [one for one in subtasks if one.id not in done and set(one.depends_on) <= done]:
            done |= {one.id for one in ready}
        whole = [resolved(one, rows) for one in subtasks]
        assert len(done) == len(subtasks) > 0
        assert all(one.worker in {"search", "code", None} for one in whole)
        assert all(one.worker or one.capability in {"find", "write"} for one in whole)


# -- cost --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["good", "chain", "unknown", "ghosts", "unresolved"])
def test_a_plan_of_a_thousand_subtasks_is_checked_in_no_time(kind: str) -> None:
    rows = tuple(row(f"worker{n}", f"skill{n % 7}", estimate=3) for n in range(1_000))
    made = {
        "good": lambda n: Subtask(f"s{n}", "count it", f"worker{n}", depends_on=[f"s{n // 2}"] if n > 1 else []),
        "chain": lambda n: Subtask(f"s{n}", "count", capability="skill1", depends_on=[f"s{n - 1}"] if n else []),
        "unknown": lambda n: Subtask(f"s{n}", "count", f"werker{n}"),
        "ghosts": lambda n: Subtask(f"s{n}", "count", f"worker{n}", depends_on=[f"t{n}"]),
        "unresolved": lambda n: Subtask(f"worker{n}", "count"),
    }[kind]
    plan = Plan([made(n) for n in range(1_000)])

    gc.collect()
    began = time.process_time()
    problems, _ = check_plan(plan, rows, task_id="t", max_subtasks=1_000, budget=Budget(10**6), goal="count it")

    assert time.process_time() - began < 0.25
    assert bool(problems) == (kind in {"unknown", "ghosts"})


def test_a_goal_is_read_only_where_a_line_needs_a_reason() -> None:
    def cost(goal: str) -> int:
        with counted_here() as operations:
            assert not check(Subtask("a", worker="search"), Subtask("b", worker="code"), goal=goal)[1]
        return operations.count

    cost("go")  # what is made once

    assert cost("find it, then " * 200) == cost("go")
