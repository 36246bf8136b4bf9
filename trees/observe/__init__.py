"""Rooms for those who watch and operate a tree: metrics, alerts, health, the page, and the sources that they look at.

A tree is known here only through what is handed in. May import ``actors``, ``trees.declaration``, ``trees.store``,
``trees.views`` and ``trees.ha``.
"""
