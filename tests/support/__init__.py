"""Helpers that several tests share: stand-ins, programs, databases, plugins of pytest."""
