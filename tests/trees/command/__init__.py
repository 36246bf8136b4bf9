"""Tests of ``trees.command``."""
