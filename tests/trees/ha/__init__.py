"""Tests of ``trees.ha``."""
