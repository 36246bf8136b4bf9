"""Tools of threads and event loops, below messages: wake-ups, disposal, arrivals, frames of a failed handler.

Knows no message, no worker and no mailbox. May import ``actors.model`` and ``actors.validation``.
"""
