"""A pytest plugin, ``-p tests.support.stress_plugin``: threads give way to each other as often as it is possible.

``REGROW_SWITCHINTERVAL`` is the interval in seconds; without it nothing changes.
"""

from __future__ import annotations

import os
import sys


def pytest_configure() -> None:
    """Before anything is collected, so that fixtures and imports run so, too."""
    interval_s = os.environ.get("REGROW_SWITCHINTERVAL")
    if interval_s is not None:
        sys.setswitchinterval(float(interval_s))


def pytest_report_header() -> str:
    """Say so in the first lines of the output."""
    return f"switch interval: {sys.getswitchinterval():g} s"
