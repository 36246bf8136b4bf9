"""Tests of ``actors.tasks.recovery``."""
