"""Tests of ``actors.execution``."""
