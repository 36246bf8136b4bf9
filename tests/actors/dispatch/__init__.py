"""Tests of ``actors.dispatch``."""
