"""Tests of ``trees.observe``."""
