"""Tests of ``actors.tasks.planning``."""
