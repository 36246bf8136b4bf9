"""Large values on their way back from the store, to the effects that need them.

Comes in: effects that are about to be done (``actors.tasks.orchestration.outbox``). An attempt says which of its dicts
it needs (``Attempt.needs``); a dict that is an argument of an effect is one that it needs. Goes out: the same dicts,
with each ``Dropped`` (``actors.tasks.journal.dropped``) replaced by its value, at the moment at which the effect is
done. So a value is in memory as long as somebody uses it, and what only waits for its turn has none.

Attempts that run at once share one form of a value: it is read once, and held by those that have it.

Locking: none. All of it is called on the tree's event loop; what a fetch brings is taken from its reply there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, TypeAlias

from actors.messaging.reply import Reply
from actors.model.weak_tables import WeakValues
from actors.tasks.execution.attempt import Attempt
from actors.tasks.journal.dropped import Dropped, lacking

Effect: TypeAlias = tuple[Callable[..., object], tuple[Any, ...]]
"""A function and its arguments."""


class _Value:
    """A value that several attempts have."""

    __slots__ = ("__weakref__", "value")

    def __init__(self, value: Any) -> None:
        self.value = value


_Key: TypeAlias = tuple[str, int, str | None]


class Fetching:
    """The values of one orchestrator's tasks that are fetched, or were and are still in use."""

    def __init__(self, fetch: Callable[[str, Collection[int]], Reply]) -> None:
        self._fetch = fetch
        self._in_use: WeakValues[_Key, _Value] = WeakValues()

    def begin(self, effects: Sequence[Effect]) -> Fetched | None:
        """Fetch the values that these effects lack; None: they lack none."""
        if _are_whole(effects):
            return None
        numbers: dict[str, set[int]] = {}
        held: dict[_Key, _Value] = {}
        for _, values in _needs(effects):
            for _, at in lacking(values):
                value = self._in_use.get(_key(at))
                if value is None:
                    numbers.setdefault(at.stream, set()).add(at.number)
                else:
                    held[_key(at)] = value
        replies = {stream: self._fetch(stream, sorted(wanted)) for stream, wanted in numbers.items()}
        return Fetched(effects, replies, held, self._in_use)


class Fetched:
    """The values that one group of effects waits for."""

    def __init__(
        self,
        effects: Sequence[Effect],
        replies: dict[str, Reply],
        held: dict[_Key, _Value],
        in_use: WeakValues[_Key, _Value],
    ) -> None:
        self._effects = effects
        self._replies = replies
        self._held = held
        self._in_use = in_use

    @property
    def done(self) -> bool:
        """True if all of them have come, or cannot come."""
        return all(reply.done for reply in self._replies.values())

    def when_done(self, come: Callable[[], object]) -> None:
        """Call this each time that some have come, in the thread that brings them."""
        for reply in self._replies.values():
            reply.when_done(come)

    def put_back(self) -> None:
        """Put the fetched values where they are needed, once all have come.

        Raises:
            StoreError: one of them cannot be read.
        """
        records = {stream: reply.outcome() for stream, reply in self._replies.items()}
        for owner, values in _needs(self._effects):
            for name, at in list(lacking(values)):
                value = self._held.get(_key(at))
                if value is None:
                    value = self._held[_key(at)] = _Value(at.found_in(records[at.stream][at.number]))
                    self._in_use.put(_key(at), value)
                values[name] = value.value
                if owner is not None:
                    owner.keep(value)


def _are_whole(effects: Sequence[Effect]) -> bool:
    """True if nothing is lacking, as with most: every effect is asked this."""
    for _, args in effects:
        for arg in args:
            dicts = arg.needs if type(arg) is Attempt else (arg,) if type(arg) is dict else ()
            for values in dicts:
                if values and Dropped in map(type, values.values()):
                    return False
    return True


def _needs(effects: Sequence[Effect]) -> Iterator[tuple[Attempt | None, dict[str, Any]]]:
    """The dicts that effects need whole, and the attempt that holds what is in them, where that is one."""
    for _, args in effects:
        for arg in args:
            if type(arg) is Attempt:
                for values in arg.needs:
                    yield arg, values
            elif type(arg) is dict:
                yield None, arg


def _key(at: Dropped) -> _Key:
    return at.stream, at.number, at.key
