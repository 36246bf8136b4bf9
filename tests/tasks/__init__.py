"""Tests of tasks, by room of ``actors.tasks``."""
