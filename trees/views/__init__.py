"""Views of a tree and of its tasks: snapshots, dumps, tables, graphs.

Reads only. May import ``actors``, ``trees.declaration`` and ``trees.store``.
"""
