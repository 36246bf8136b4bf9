"""Fields that several threads write: why they are slots, and the first store in one.

An object without slots keeps its attributes in an array. CPython makes a dict of that where somebody looks at
``__dict__``, and where a name is set that the first thirty or so instances of its class did not have. CPython 3.11 may
collect garbage in that very allocation. A finalizer that runs there lets other threads go on; if one of them needs the
dict of the same object, there are two dicts for one array:

* the attribute that the other thread has set is lost: if it was an outcome, who waits for it waits for ever;
* the array is freed under one of the two: a later read, or a later collection, is a segmentation fault.

(Later versions collect only between two instructions.) So, of what threads share:

* a class has slots, or each of its instances has all its attributes once ``__init__`` has ended. A default that stands
  in the class and is replaced in an instance later is the fault itself;
* nobody changes the ``__dict__`` of an instance, or reads it to have a step of C.

tests/project/test_shared_fields.py holds the first against every class, and the second against every file.

Of two threads that both would fill an empty field, one must be first, and both must go on with what that one has put
there (``first_of``). No lock is held for that. A finalizer or a signal handler may come in between anywhere, also on
the same thread, and fill the same field: one that met a lock there would wait for itself for ever. (To leave the block
of a ``with`` allocates on 3.11, before the lock is free.)
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

ValueT = TypeVar("ValueT")

_OFFERS: Final[dict[tuple[object, str], Any]] = {}
"""Values that somebody is about to put into an empty field, by the object and the field.

One that a signal handler's exception, or a fork, has left here is harmless: it is of that object still.
"""


def first_of(owner: object, field: str, value: ValueT, empty: object = None) -> ValueT:
    """Fill an empty field, unless another thread was first; return what stands in it.

    Each step is one operation of C::

        offer    the first offer for the field is everybody's: ``setdefault``
        look     at the field, after the offer
        store    that offer, where the field was empty
        take     the offer away

    An offer is taken away only after it was stored. So whoever makes the first offer once more, because the earlier one
    is gone, finds the field filled; and whoever finds it empty has the one offer that there has been. To store that
    late, once more, changes nothing: nobody puts anything else into such a field. (A request that ends empties its own;
    what is stored in it after that is looked at by nobody.)

    Args:
        owner: the object, which is hashed by its identity.
        field: name of its slot.
        value: what to put there.
        empty: what stands in it before.
    """
    key = (owner, field)
    offered: ValueT = _OFFERS.setdefault(key, value)
    held: ValueT = getattr(owner, field)
    if held is empty:
        setattr(owner, field, offered)
        held = offered
    _OFFERS.pop(key, None)
    return held
