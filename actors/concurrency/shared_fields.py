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

Of two threads that both would fill an empty field, one must be first. ``FIRST.lock`` is held for that: for a comparison
and a store. Nothing is called or allocated while it is held. So no finalizer, no signal handler and no other thread can
come in between, whoever holds it never waits, and no order of locks is needed.
"""

from __future__ import annotations

import threading
from typing import Final


class FirstStore:
    """Guards the moment in which an empty field is filled, whatever object it is of."""

    __slots__ = ("lock",)

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def forked(self) -> None:
        """In the child of a fork nobody gives it back where another thread had it."""
        self.lock = threading.Lock()


FIRST: Final = FirstStore()
