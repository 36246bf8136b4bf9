"""What a program begins with that forks beside threads on purpose, and whose stderr is looked at."""

from __future__ import annotations

LETS_FORKS_BE = """
import warnings
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
"""
"""From Python 3.12 on ``os.fork`` warns whoever has threads, and a warning of ``__main__`` goes to stderr."""
