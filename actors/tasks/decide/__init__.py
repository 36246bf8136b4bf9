"""Decisions about tasks: from where one stands, and what has happened, to the events that follow. Pure.

No module here imports a thread, a clock, a loop or Pykka: the time, randomness and the workers come in as ``Facts``.
"""
