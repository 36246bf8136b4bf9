"""Tests of the repository itself: layers, packaging, README, examples, benchmarks, long runs."""
