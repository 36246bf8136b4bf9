"""An agent of a framework that nobody knew is given work as it is, and what it used is counted."""

from __future__ import annotations

from types import SimpleNamespace

from trees import StaticPlan, Subtask, SupervisorSpec, Tasks, WorkerSpec, start


class Crew:
    """As a framework has it: its agents are kicked off, and answer in a record of its own."""

    role = "looks things up"

    def kickoff(self, prompt: str) -> object:
        return SimpleNamespace(raw=f"{prompt.splitlines()[0]}: done", token_usage=7)


Crew.__module__ = "crews"  # as the package of the framework would have it
planner = StaticPlan([Subtask("a", worker="w", instruction="look it up")])
spec = SupervisorSpec(id="p", tasks=Tasks(planner=planner), children=[WorkerSpec(id="w", execute=Crew())])
with start(spec) as tree:
    report = tree.run("look", timeout=60)
    assert tree.registry()[0].description == "looks things up"
assert report.output == {"a": "look it up: done"}, report.output
assert report.usage.tokens == 7, report.usage
print("works")
