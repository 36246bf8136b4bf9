"""Tests of ``actors.supervision``."""
