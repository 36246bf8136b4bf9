"""Tests of ``actors.tasks.journal``."""
