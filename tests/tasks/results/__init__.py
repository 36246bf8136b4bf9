"""Tests of ``actors.tasks.results``."""
