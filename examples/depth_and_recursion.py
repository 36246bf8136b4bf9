"""The two errors that keep a tree small and its messages finite, each provoked and printed.

    python examples/depth_and_recursion.py

Depth: a tree has three levels at most, and the mistake is told when it is written down, before anything runs.
Recursion: a worker that is asked for something, and asks (through others) whoever waits for it, would wait for itself.
"""

import actors
from actors import DepthError, RecursionDetectedError
from trees import SupervisorSpec, WorkerSpec, start


def plan(goal: str) -> str:
    """Ask for research."""
    found: str = actors.ref("office/research").ask(goal)
    return f"plan with {found}"


def research(goal: str) -> str:
    """Look things up; where the goal is vague, ask for a plan first: that is the mistake."""
    if goal == "vague":
        return str(actors.ref("office/plan").ask(goal))
    return f"facts on {goal}"


TREE = SupervisorSpec(
    id="office", children=[WorkerSpec(id="plan", handle=plan), WorkerSpec(id="research", handle=research)]
)


def too_deep() -> SupervisorSpec:
    """Four levels. Raises DepthError, because constructing the root is enough."""
    lint = WorkerSpec(id="lint", handle=str)
    react = SupervisorSpec(id="react", children=[lint])
    web = SupervisorSpec(id="web", children=[react])
    return SupervisorSpec(id="shop", children=[web])


def main() -> None:
    """Provoke both."""
    try:
        too_deep()
    except DepthError as error:
        print(f"DepthError\n  {error}\n")

    with start(TREE) as tree:
        print("a request that goes down and back:", tree.ref("office/plan").ask("tea"))
        try:
            tree.ref("office/plan").ask("vague")
        except RecursionDetectedError as error:
            print(f"\nRecursionDetectedError, at once instead of a deadlock\n  {error}")
        # Nobody crashed: the error belongs to the request, and both workers are as they were.
        again = tree.ref("office/plan").ask("coffee")
        print(f"\nthe same two workers, still the first incarnation: {again}")
        print([(child.id, child.incarnation) for child in tree.which_children("office")])


if __name__ == "__main__":
    main()
