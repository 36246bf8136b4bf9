"""Tests of ``actors.tasks.orchestration``."""
