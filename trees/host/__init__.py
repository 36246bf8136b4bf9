"""Objects that a host program holds: the tree, its task methods, handles, the console, signals.

``start`` makes a tree of a declaration. May import every other room of ``trees`` but ``trees.command``.
"""
