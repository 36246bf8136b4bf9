"""Tests of ``trees.declaration``."""
