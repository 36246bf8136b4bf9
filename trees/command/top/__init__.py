"""``regrow top``: a tree on a terminal, live, and operated with keys.

``picture`` decides what is drawn, of the plain dicts of a ``Source``; ``app`` is the program and ``screens`` what it
asks and shows on top of itself. Only ``app`` and ``screens`` need the packages of the extra ``cli``.
"""
