"""The command ``regrow``, behind ``trees.cli``.

To be read in this order: ``app`` (its words), ``target`` (whose tree), ``running`` (``run``) with ``live`` and
``resuming``, ``tasks`` with ``outside`` (what is in a store) and ``seen`` (how it is shown).
"""
