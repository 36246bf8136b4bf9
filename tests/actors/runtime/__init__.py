"""Tests of ``actors.runtime``."""
