"""``Ray``: a worker whose every incarnation is an actor in a cluster, and what that takes there."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, PlainValidator

from actors.dispatch.host.ray_handle import RayPlace
from actors.dispatch.ray import CLIENT
from actors.dispatch.worker.worker_main import MEGABYTE
from actors.model.errors import Problem
from actors.validation.spec_model import SpecModel
from actors.validation.validation_messages import type_phrase, validation_error, value_phrase
from trees.agents.packages import install

_INSTALL: Final = install("ray")
_RESERVED: Final = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory_mb"}
_STORE: Final = "object_store_memory"
"""Name of what Ray lets no actor ask for."""
_LEAST: Final = 0.0001
"""The least share that Ray knows of."""
_ADDRESS: Final = re.compile(r"auto|local|([^\s:/\[\]]+|\[[0-9a-fA-F:.]+\]):\d{1,5}")


def _resources(value: object) -> Mapping[str, float]:
    hint = "Write {'accelerator': 1}."
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise validation_error(f"expected numbers by the names of resources, got {type_phrase(value)}", hint)
    for name, number in value.items():
        if not isinstance(name, str) or not name:
            raise validation_error(f"{value_phrase(name)} is the name of no resource", hint)
        if name in _RESERVED:
            raise validation_error(f"{name!r} has a field of its own", f"Write {_RESERVED[name]}=.")
        if name == _STORE:
            raise validation_error(f"Ray gives no {name!r} to actors", "Leave it out; memory_mb= is what it takes.")
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not _LEAST <= number < float("inf"):
            raise validation_error(f"{value_phrase(number)} is no number of {name!r}", hint)
    return dict(value)


def _share(number: float) -> float:
    if not (number == 0 or _LEAST <= number < float("inf")):
        raise validation_error(
            f"{value_phrase(number)} is no share that Ray knows of", f"Write 0, or {_LEAST} or more."
        )
    return number


def _whole_above_one(number: float) -> float:
    if number > 1 and number != int(number):
        raise validation_error(
            f"{value_phrase(number)} GPUs cannot be had: above 1 there are no shares", "Write 1 or 2."
        )
    return number


def _address(value: str | None) -> str | None:
    if value is not None and value.startswith(CLIENT):
        what = f"{value_phrase(value)} is an address for Ray Client, which carries no stream of bytes"
        raise validation_error(what, 'Name the head of the cluster itself: "head:6379".')
    if value is not None and _ADDRESS.fullmatch(value) is None:
        raise validation_error(
            f"{value_phrase(value)} is no address of a cluster", 'Write "head:6379", "auto" or "local".'
        )
    return value


def _runtime_env(value: object) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        hint = "Write {'working_dir': '.', 'pip': ['numpy']}; Ray's pages say what it may hold."
        raise validation_error(f"expected settings by their names, got {type_phrase(value)}", hint)
    return dict(value)


class Ray(SpecModel, frozen=True):
    """An actor of Ray for each incarnation, on whichever node has room; its restarts are its supervisor's.

    What holds for a ``Process`` holds there: what crosses is pickled, an order to end is a kill in the end. This
    library, and the worker's code, must be importable on every node.

    Stop the tree before you call ``ray.shutdown()``: Ray ends a process in which another thread uses its
    core meanwhile.
    """

    num_cpus: Annotated[float, Field(ge=0), AfterValidator(_share)] = 1
    """Processors that it takes while it lives. A share is allowed."""
    num_gpus: Annotated[float, Field(ge=0), AfterValidator(_share), AfterValidator(_whole_above_one)] = 0
    """GPUs likewise."""
    memory_mb: Annotated[int, Field(ge=1)] | None = None
    """Megabytes that it takes of what its node offers: Ray uses it to find room, and sets no limit. ``None``: any."""
    resources: Annotated[Mapping[str, float] | None, PlainValidator(_resources)] = None
    """Other resources that it takes, as the nodes name them."""
    runtime_env: Annotated[Mapping[str, Any] | None, PlainValidator(_runtime_env)] = None
    """Ray's settings for its surroundings: ``working_dir``, ``pip``, ``env_vars`` and others. Shown nowhere."""
    address: Annotated[str | None, AfterValidator(_address)] = None
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
            self.resources or {},
            self.runtime_env or {},
            self.address,
        )


def missing_package(at: str) -> Problem | None:
    """Return the problem of a worker in a cluster where Ray is not installed."""
    if importlib.util.find_spec("ray") is not None:
        return None
    return Problem(f"{at}.dispatch", "a worker in a cluster needs Ray, which is not installed", _INSTALL)
