"""Declarations of users: the rules that they keep, targets, and the build of a tree.

``specs`` is what users write, ``check`` judges it, ``kinds`` lists the kinds of workers (one file each), ``build``
makes what the runtime starts. May import ``actors``.
"""
