"""Tests of declarations, stores, views, candidates, hosts and the command, by room of ``trees``."""
