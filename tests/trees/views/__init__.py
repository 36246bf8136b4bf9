"""Tests of ``trees.views``."""
