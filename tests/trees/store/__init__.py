"""Tests of ``trees.store``."""
