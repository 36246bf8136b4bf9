"""Tests of ``actors.concurrency``."""
