"""State of the question that a run of an agent goes on from."""

from __future__ import annotations

from typing import Any

from actors.tasks.model.policy import Respond


def question_state(context: Any) -> dict[str, Any] | None:
    """Return the state that the last question of the run was asked with; None: the run begins.

    A run that has failed since may be tried again because its ladder has asked, too. Whoever answers that with a text
    wants it heard: the run begins, with the text in its prompt.

    Args:
        context: of the attempt. ``answers`` in its state is the number of answers that there were before.
    """
    state = context.state
    if not isinstance(state, dict) or "answers" not in state:
        return None
    since = context.answers[state["answers"] + 1 :]
    return None if any(isinstance(answer, Respond) for answer in since) else state
