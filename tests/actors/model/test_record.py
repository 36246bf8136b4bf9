"""Records are dataclasses in all but the time that it takes to make one."""

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import Any, ClassVar

import pytest

from actors.model.event_time import note_time
from actors.model.events import ChildExited, ChildParked
from actors.model.record import is_unfrozen, record
from actors.model.spec import Reason
from tests.support.event_kinds import OUR_KINDS


@record(frozen=True, slots=True)
class Made:
    """One of ours."""

    kind: ClassVar[str] = "made"
    a: int
    seq: int = field(default=0, kw_only=True, compare=False)
    b: str = "b"


@record(frozen=True, slots=True)
class More(Made):
    """One with more fields."""

    c: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Usual:
    """The same as the first, made as usual."""

    kind: ClassVar[str] = "made"
    a: int
    seq: int = field(default=0, kw_only=True, compare=False)
    b: str = "b"


@record(frozen=True, slots=True)
class Listed:
    """One with a field that is made anew for each."""

    items: list[int] = field(default_factory=list)


def test_a_record_takes_the_same_arguments_as_a_dataclass() -> None:
    assert inspect.signature(Made) == inspect.signature(Usual)
    assert [(each.name, each.default) for each in fields(Made)] == [(each.name, each.default) for each in fields(Usual)]


@pytest.mark.parametrize("make", [Made, lambda: Made(1, "x", 2), lambda: Made(1, d=2), lambda: Made(1, a=1)])
def test_a_record_refuses_what_a_dataclass_refuses(make: Any) -> None:
    with pytest.raises(TypeError, match=r"Made\.__init__\(\)"):
        make()


def test_a_record_has_what_it_was_given_and_defaults_for_the_rest() -> None:
    made = More(1, "x", (3,), seq=9)
    assert (made.a, made.b, made.c, made.seq) == (1, "x", (3,), 9)
    assert More(1) == More(1, "b", ()) == replace(More(2), a=1)
    assert repr(More(1)) == "More(a=1, seq=0, b='b', c=())"


def test_nothing_of_a_record_is_changed_afterwards() -> None:
    made = Made(1)
    with pytest.raises(FrozenInstanceError):
        made.a = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del made.b


def test_a_record_is_copied_and_pickled() -> None:
    made = More(1, "x", (3,))
    assert copy.copy(made) == pickle.loads(pickle.dumps(made)) == made  # noqa: S301 - our own


def test_an_event_is_copied_and_pickled_with_its_time_and_its_error_and_without_the_frames() -> None:
    try:
        raise ValueError("boom")  # noqa: TRY301 - for its traceback
    except ValueError as error:
        exited = ChildExited("t/w", Reason.CRASHED, 1, error, error.__traceback__, started=True, lost=0, at=3.0)
    note_time(exited, 2.0)
    parked = ChildParked("t/w", 3)
    note_time(parked, 2.0)

    for made in (pickle.loads(pickle.dumps(exited)), copy.deepcopy(exited)):  # noqa: S301 - our own
        assert (made.path, made.reason, made.at, made.frames) == ("t/w", Reason.CRASHED, 3.0, None)
        assert repr(made.error) == "ValueError('boom')"
    for made in (pickle.loads(pickle.dumps(parked)), copy.deepcopy(parked), copy.copy(parked)):  # noqa: S301 - our own
        assert (made, made.at) == (parked, 2.0)
    assert exited.frames is not None


def test_a_field_that_is_made_anew_is_each_ones_own() -> None:
    one, other = Listed(), Listed()
    one.items.append(1)
    assert other.items == []


@pytest.mark.parametrize("kind", OUR_KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_of_event_takes_its_fields_in_the_order_of_a_dataclass(kind: type[Any]) -> None:
    given = [each for each in fields(kind) if each.init]
    by_place = [each.name for each in given if not each.kw_only]
    assert list(inspect.signature(kind).parameters) == [*by_place, *(each.name for each in given if each.kw_only)]
    values = {each.name: object() for each in given}
    made = kind(**values)
    assert all(getattr(made, name) is value for name, value in values.items())


class Derived(Made):
    """One that is derived without ``record``: its objects have a ``__dict__``."""

    extra = 1


def test_what_is_derived_without_record_is_made_as_usual_and_as_frozen() -> None:
    derived = Derived(1, "x", seq=2)

    assert type(derived) is Derived
    assert (derived.a, derived.b, derived.seq, derived.extra) == (1, "x", 2, 1)
    with pytest.raises(FrozenInstanceError):
        derived.a = 2  # type: ignore[misc]


@record(frozen=True, slots=True)
class Named:
    """One whose fields have the names that its ``__init__`` might use."""

    type: str
    usual: str = "usual"
    record: str = "record"
    object: str = "object"


def test_a_field_may_have_any_name() -> None:
    named = Named("t", object="o")

    assert (named.type, named.usual, named.record, named.object) == ("t", "usual", "record", "o")
    assert type(named) is Named


def test_nothing_of_how_a_record_is_made_is_a_kind_of_event() -> None:
    assert not [kind for kind in OUR_KINDS if is_unfrozen(kind)]
