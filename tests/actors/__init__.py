"""Tests of the runtime, by room."""
