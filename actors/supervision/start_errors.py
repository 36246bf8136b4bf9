"""The error of a start that has failed: which child it was, and what happened to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.model.errors import StartError
from actors.model.process_errors import ProcessDiedError
from actors.model.raised import is_a
from actors.model.spec import WorkerRecipe
from actors.validation.introspection import type_name

if TYPE_CHECKING:
    from actors.execution.incarnation import Exit
    from actors.supervision.child import Child


def start_error(child: Child, exit_: Exit) -> StartError:
    """Why a child did not start, with the next level down as its cause."""
    if is_a(exit_.error, StartError) and exit_.error.path == child.path:
        return exit_.error  # of a command, which says more
    if child.timed_out:
        limit, recipe = child.spec.start_timeout_s, child.spec.recipe
        still, later = "on_start still running", "Raise start_timeout_s, or do the slow part later"
        if getattr(recipe, "program", None) is not None:
            asked = "" if exit_.error is None else f"; when it was asked last it raised {type_name(type(exit_.error))}"
            still, later = f"it is not ready{asked}", f"{later}."
        elif isinstance(recipe, WorkerRecipe) and (exit_.what or recipe.waits_for):
            still, later = exit_.what or recipe.waits_for, "Raise start_timeout_s, or see what it waits for."
        else:
            later = f"{later}, e.g. with a tell to itself."
        error = StartError(child.path, f"did not start within {limit:g} s ({still})", later)
    elif is_a(exit_.error, StartError) and not child.spec.is_supervisor:
        what, hint = exit_.error.what, exit_.error.hint
        error = StartError(child.path, what, hint, said=f"{what}. {hint}".strip())
    elif is_a(exit_.error, StartError):
        said = exit_.error.said
        error = StartError(child.path, f"child {exit_.error.path!r} did not start", said, said=said)
    elif is_a(exit_.error, ProcessDiedError):
        what = f"{exit_.detail} while it started ({type_name(type(exit_.error))})"
        error = StartError(child.path, what, said=f"{what[0].upper()}{what[1:]}.")
    elif exit_.error is not None:
        error = StartError(child.path, f"raised {type_name(type(exit_.error))} while it started")
    else:
        error = StartError(child.path, f"ended while it started ({exit_})")
    error.__cause__ = exit_.error
    return error
