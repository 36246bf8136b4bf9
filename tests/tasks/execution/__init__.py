"""Tests of ``actors.tasks.execution``."""
