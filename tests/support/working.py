"""What a piece of code costs, as a figure that does not depend on what else the machine has to do."""

from __future__ import annotations
