"""Tests of ``trees.host``."""
