"""A model that says what it was told to say: for ``ModelPlanner``, ``ModelReviewer``, ``ModelSynthesizer``, and agents.

Comes in: answers, as steps (see ``actors.testing.script``). Goes out: an async callable, and what it was asked.
"""

from __future__ import annotations

from typing import Any

from actors.testing.script import now, play_async


class FakeModel:
    """An async callable ``call(prompt, schema)`` with scripted answers.

    ::

        model = FakeModel("that is no plan", {"subtasks": [{"id": "a", "worker": "search"}]})
        TREE = SupervisorSpec(id="p", tasks=Tasks(planner=ModelPlanner(model)), children=[...])
        with start(TREE) as tree:
            tree.run("find it")
        assert "no JSON" in model.prompts[1]        # it was told what was wrong with its first answer

    Args:
        answers: one for each call, the last one again and again: text, JSON as text or as a dict or list, an exception
            that is raised, ``Hang()``, ``Slow(2, then=answer)`` on the tree's clock, a function of (prompt, schema).
    """

    def __init__(self, answer: object, *answers: object) -> None:
        self._answers = (answer, *answers)
        self.prompts: list[str] = []
        """Requests that it got, in order."""
        self.schemas: list[dict[str, Any] | None] = []
        """The JSON schemas that came with the prompts; None: there was none."""

    def __repr__(self) -> str:
        return f"<FakeModel of {len(self._answers)} answers, called {len(self.prompts)} times>"

    async def __call__(self, prompt: str, schema: dict[str, Any] | None = None) -> Any:
        """The next answer."""
        turn, began = len(self.prompts), now()
        self.prompts.append(prompt)
        self.schemas.append(schema)
        return await play_async(self._answers[min(turn, len(self._answers) - 1)], (prompt, schema), began)
