"""Names that a newcomer types where they are not: the error says what to type instead."""

from __future__ import annotations

from collections.abc import Mapping


def missing_name(owner: object, name: str, meant: Mapping[str, str]) -> AttributeError:
    """Make the error for an attribute that an object does not have.

    Args:
        owner: the object.
        name: that was looked up.
        meant: what to write in place of a name, for those that are often tried.
    """
    what = f"{type(owner).__name__!r} object has no attribute {name!r}"
    if name in meant:
        return AttributeError(f"{what}. {meant[name]}", name=name, obj=None)  # else Python would suggest others
    return AttributeError(what, name=name, obj=owner)
