"""Tests of ``actors.testing``."""
