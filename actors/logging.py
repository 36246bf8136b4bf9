"""Where the log lines of this library go: loguru, unless ``to_stdlib()`` sends them to ``logging``."""

from actors.model.log_lines import to_stdlib

__all__ = ["to_stdlib"]
