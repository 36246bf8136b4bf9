"""What the code of a worker logs in its process: it goes to the logs of the host, and nowhere else.

Lines of loguru, records of ``logging`` and warnings go one way: as plain values, with each value of the user's pickled
by itself. One that does not cross is its text.
"""

from __future__ import annotations

import logging
import pickle
import traceback
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from loguru import logger

from actors.dispatch.remote import PackedError, pack_error, rebuilt

Values: TypeAlias = dict[str, tuple[bytes | None, str]]
_OF_LOGURU: Final = ("name", "function", "line", "file", "module", "process", "thread", "time", "elapsed")


def levels_of_logging() -> dict[str, int]:
    """In the host: return the levels of ``logging`` that are set here, by the names of the loggers."""
    found = {"": logging.root.level}
    for name, each in logging.root.manager.loggerDict.copy().items():
        if isinstance(each, logging.Logger) and each.level:
            found[name] = each.level
    return found


def log_to_host(send: Callable[..., object], levels: Mapping[str, int]) -> None:
    """In the process: have all that is logged sent, in place of whatever sinks and handlers there were.

    Args:
        send: takes the kind of a line, and its parts.
        levels: those of the host.
    """

    def sink(message: Any) -> None:
        record = message.record
        error = record["exception"]
        packed = None if error is None or error.value is None else pack_error(error.value)
        born = _packed({key: record[key] for key in _OF_LOGURU})
        send(
            "line", record["level"].name, record["level"].no, record["message"], born, _packed(record["extra"]), packed
        )

    logger.remove()
    logger.add(sink, level=0, format="{message}", catch=True)
    logging.root.handlers[:] = [_Relay(send)]
    for each in logging.root.manager.loggerDict.copy().values():
        if isinstance(each, logging.Logger):  # what its module has set up as it was imported: the host has the same
            each.handlers[:], each.propagate = [], True
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)

    def show(message: Any, category: Any, filename: str, lineno: int, *_: object) -> None:
        send("warning", str(message), _packed({"category": category}), filename, lineno)

    warnings.showwarning = show  # type: ignore[assignment]


class _Relay(logging.Handler):
    """Handler that sends each record."""

    def __init__(self, send: Callable[..., object]) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        """Send it, with the text of its traceback in place of the frames."""
        values = {key: value for key, value in vars(record).items() if key != "exc_info"}
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not record.exc_text:
            values["exc_text"] = "".join(traceback.format_exception(error)).rstrip("\n")
        try:
            self._send("record", record.getMessage(), _packed(values), None if error is None else pack_error(error))
        except Exception:  # noqa: BLE001 - as every handler of logging has it
            self.handleError(record)


def _packed(values: Mapping[str, object]) -> Values:
    return {key: _packed_value(value) for key, value in values.items()}


def _packed_value(value: object) -> tuple[bytes | None, str]:
    try:
        return pickle.dumps(value), ""
    except Exception:  # noqa: BLE001 - it is the user's
        return None, _text_of(value)


def _text_of(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - the same
        return f"<{type(value).__name__}>"


def _unpacked(values: Values) -> dict[str, Any]:
    return {key: _value(*packed) for key, packed in values.items()}


def _value(packed: bytes | None, text: str) -> Any:
    try:
        return text if packed is None else pickle.loads(packed)  # noqa: S301 - of our own process
    except Exception as error:  # noqa: BLE001 - its class may not be here
        return f"<not here: {type(error).__name__}>"


# -- in the host -----------------------------------------------------------------------------------------------


def log_here(path: str, kind: str, *parts: Any) -> None:
    """Write what the process of the worker at ``path`` has sent."""
    if kind == "line":
        _write_line(path, *parts)
    elif kind == "record":
        _handle_record(path, *parts)
    else:
        _show_warning(*parts)


def _write_line(
    path: str, level: str, number: int, text: str, born: Values, extra: Values, packed: PackedError | None
) -> None:
    known: str | int = level
    try:
        logger.level(level)
    except ValueError:
        known = number
    error = None if packed is None else rebuilt(packed)

    def put(record: Any) -> None:
        record.update(_unpacked(born))

    bound = logger.bind(**_unpacked(extra) | {"worker": path}).patch(put)
    bound.opt(exception=error).log(known, "{}", f"{path}: {text}")


def _handle_record(path: str, text: str, packed: Values, error: PackedError | None) -> None:
    values = _unpacked(packed)
    if packed["args"][0] is None or packed["msg"][0] is None or not _fits(values):
        values.update(msg=text, args=None)
    record = logging.makeLogRecord({**values, "worker": path})
    if error is not None:
        there = rebuilt(error)
        record.exc_info = (type(there), there, there.__traceback__)
    to = logging.getLogger(record.name)
    if to.isEnabledFor(record.levelno):
        to.handle(record)


def _fits(values: Mapping[str, Any]) -> bool:
    """True if message and arguments make the text here, too."""
    try:
        logging.makeLogRecord(dict(values)).getMessage()
    except Exception:  # noqa: BLE001 - it is the user's
        return False
    return True


def _show_warning(text: str, packed: Values, filename: str, lineno: int) -> None:
    category = _unpacked(packed)["category"]
    warnings.showwarning(text, category if isinstance(category, type) else UserWarning, filename, lineno)
