"""The pytest fixture. The one file of the library that imports pytest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from actors.testing.leak_check import leaving_nothing_behind


@pytest.fixture
def no_stray_actors() -> Iterator[None]:
    """Fail a test that leaves a tree, an actor of Pykka's registry or a thread behind; what it left is ended.

    Threads that are just ending are given a moment. To use it for every test of a folder, in its ``conftest.py``::

        from actors.testing import no_stray_actors

        pytestmark = pytest.mark.usefixtures("no_stray_actors")     # in a test file, or:


        @pytest.fixture(autouse=True)
        def _nothing_is_left(no_stray_actors: None) -> None: ...
    """
    with leaving_nothing_behind():
        yield
