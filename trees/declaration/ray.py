"""``Ray``: a worker whose every incarnation is an actor in a cluster, and what that takes there."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final

from pydantic import Field, PlainValidator

from actors.dispatch.process import MEGABYTE
from actors.dispatch.ray import RayPlace
from actors.model.errors import Problem
from actors.validation.spec_model import SpecModel
from actors.validation.validation_messages import type_phrase, validation_error, value_phrase

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_INSTALL: Final = "Install it: pip install 'regrow[ray]'"
_RESERVED: Final = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory_mb"}


def _resources(value: object) -> Mapping[str, float]:
    hint = "Write {'accelerator': 1}."
    if value is None:
        return _NOTHING
    if not isinstance(value, Mapping):
        raise validation_error(f"expected numbers by the names of resources, got {type_phrase(value)}", hint)
    for name, number in value.items():
        if not isinstance(name, str) or not name:
            raise validation_error(f"{value_phrase(name)} is the name of no resource", hint)
        if name in _RESERVED:
            raise validation_error(f"{name!r} has a field of its own", f"Write {_RESERVED[name]}=.")
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 < number < float("inf"):
            raise validation_error(f"{value_phrase(number)} is no number of {name!r}", hint)
    return MappingProxyType(dict(value))


def _runtime_env(value: object) -> Mapping[str, Any]:
    if value is None:
        return _NOTHING
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        hint = "Write {'working_dir': '.', 'pip': ['numpy']}; Ray's pages say what it may hold."
        raise validation_error(f"expected settings by their names, got {type_phrase(value)}", hint)
    return MappingProxyType(dict(value))


class Ray(SpecModel, frozen=True):
    """An actor of Ray for each incarnation, on whichever node has room; its restarts are its supervisor's.

    What holds for a ``Process`` holds there: what crosses is pickled, an order to end is a kill in the end. This
    library, and the worker's code, must be importable on every node.

    Stop the tree before you call ``ray.shutdown()``: Ray ends a process in which another thread uses its
    core meanwhile.
    """

    num_cpus: Annotated[float, Field(ge=0)] = 1
    """Processors that it takes while it lives. A share is allowed."""
    num_gpus: Annotated[float, Field(ge=0)] = 0
    """GPUs likewise."""
    memory_mb: Annotated[int, Field(ge=1)] | None = None
    """Megabytes that it takes of what its node offers: Ray uses it to find room, and sets no limit. ``None``: any."""
    resources: Annotated[Mapping[str, float] | None, PlainValidator(_resources)] = None
    """Other resources that it takes, as the nodes name them."""
    runtime_env: Annotated[Mapping[str, Any] | None, PlainValidator(_runtime_env)] = None
    """Ray's settings for its surroundings: ``working_dir``, ``pip``, ``env_vars`` and others. Shown nowhere."""
    address: str | None = None
    """Address of the cluster. ``None``: the one that this process is connected to, else that of the environment's
    ``RAY_ADDRESS``, else one that is started on this machine, for as long as this process lives."""

    def __repr_args__(self) -> Iterator[tuple[str, object]]:
        """Show no environment: it may hold secrets."""
        yield "num_cpus", self.num_cpus
        yield "num_gpus", self.num_gpus
        yield "memory_mb", self.memory_mb
        yield "resources", dict(self.resources or {})

    def place(self, id_: str) -> RayPlace:
        """Return it as the runtime needs it."""
        return RayPlace(
            id_,
            self.num_cpus,
            self.num_gpus,
            None if self.memory_mb is None else self.memory_mb * MEGABYTE,
            self.resources or _NOTHING,
            self.runtime_env or _NOTHING,
            self.address,
        )


def missing_package(at: str) -> Problem | None:
    """Return the problem of a worker in a cluster where Ray is not installed."""
    if importlib.util.find_spec("ray") is not None:
        return None
    return Problem(f"{at}.dispatch", "a worker in a cluster needs Ray, which is not installed", _INSTALL)
