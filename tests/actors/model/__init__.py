"""Tests of ``actors.model``."""
