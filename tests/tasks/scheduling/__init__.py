"""Tests of ``actors.tasks.scheduling``."""
