"""Processes whose orchestrators die at every single record that they make, or whose store is late, get there too."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from actors import Event
from actors.messaging.reply import Reply
from tests.faults.cut_points import Cut
from tests.tasks.journal.test_recovery_late import Writer, writer
from tests.tasks.journal.test_resume import Plain
from tests.tasks.journal.test_resume_asks import Asking
from tests.tasks.journal.test_resume_ends import Broken, Cancelled
from tests.tasks.journal.test_resume_escalations import Asked, Reviewed, Undone
from tests.tasks.journal.test_resume_teams import Teams
from tests.tasks.resuming import Books, Change, NotingStore, Scenario, same_from_every_change
from trees import SupervisorSpec

__all__ = ["writer"]


class StormyStore(NotingStore):
    """Where it has some already, it breaks down at every record that it has not seen yet, once."""

    def __init__(self, changes: Sequence[Change]) -> None:
        self._seen: set[tuple[str, int]] = set()
        self._breaks = False
        super().__init__(changes)
        self._breaks = bool(changes)

    def append(self, stream: str, record: Event) -> None:
        at = (stream, len(self._streams[stream]))
        if self._breaks and at not in self._seen:
            self._seen.add(at)
            raise Cut
        super().append(stream, record)


def hardy(spec: SupervisorSpec) -> SupervisorSpec:
    """The same, for any number of restarts."""
    children = [hardy(child) if isinstance(child, SupervisorSpec) else child for child in spec.children]
    return spec.model_copy(update={"max_restarts": 1_000_000, "children": children})


EACH = pytest.mark.parametrize(
    "scenario",
    [Plain(), Asked(), Undone(), Reviewed(), Teams(fails=True), Asking(), Cancelled(), Broken()],
    ids=lambda scenario: type(scenario).__name__.lower(),
)


@pytest.mark.slow
@EACH
def test_orchestrators_that_die_at_every_record_of_a_new_process_get_there_all_the_same(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = scenario.spec

    def spec(books: Books) -> SupervisorSpec:
        return hardy(declared(books))

    monkeypatch.setattr(scenario, "spec", spec)

    assert same_from_every_change(scenario, every=5, most=3, store=StormyStore) > 20


class LateStore(NotingStore):
    """Keeps what it is given a little later."""

    writer: Writer

    def flush(self) -> Reply | None:  # type: ignore[override]
        reply = Reply()
        self.writer.replies.put(reply)
        return reply


@pytest.mark.slow
@EACH
def test_a_store_that_keeps_records_later_than_it_gets_them_is_gone_on_from_at_any_change(
    scenario: Scenario, writer: Writer
) -> None:
    def store(changes: Sequence[Change]) -> LateStore:
        late = LateStore(changes)
        late.writer = writer
        return late

    assert same_from_every_change(scenario, every=5, most=4, store=store) > 20
