"""Tests of ``actors.validation``."""
