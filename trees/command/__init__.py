"""The command ``regrow``, behind ``trees.cli``.

To be read in this order: ``app`` (the command line), ``target`` (which tree), ``run`` (``run``) with ``live_view`` and
``resume``, ``serve`` (``mcp``), ``task_commands`` with ``store_client`` (what is in a store) and
``trees.views.task_views`` (how it is shown).
"""
