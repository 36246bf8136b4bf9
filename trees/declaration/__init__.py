"""Declarations of users: the rules that they keep, targets, and the build of a tree.

May import ``actors``.
"""
