"""Parts that the actors of one tree share: the system, the event bus, the reports of its dispatchers.

May import every other room of ``actors`` but ``actors.tasks``.
"""
