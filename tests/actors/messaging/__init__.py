"""Tests of ``actors.messaging``."""
