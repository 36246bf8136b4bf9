"""Which models are to be asked for streams, by what their streams have shown so far."""

from __future__ import annotations


class StreamHabits:
    """Knowledge of the streams of models, shared by all attempts that use them.

    A stream tells last why it has ended, and its usage. One without them was cut off, or is of a provider that never
    tells them. The answers of such a provider are to be asked for whole: else nobody could count them, or know that
    they are whole. A model that has told both once tells them: whatever comes without was cut off, and says nothing of
    the streams that follow.

    Each change is one step of C. Attempts that end at once agree on what they add.
    """

    def __init__(self) -> None:
        self._telling: set[str] = set()
        self._doubtful: set[str] = set()
        self._off: set[str] = set()

    def streams(self, model: str = "") -> bool:
        """Return True where a model, by its name here, is to be asked for a stream."""
        return model not in self._off

    def told(self, model: str = "") -> None:
        """A stream of it has told its usage, and its end."""
        self._telling.add(model)

    def told_nothing(self, model: str = "", *, has_ended: bool = True) -> None:
        """A stream of it has come to an end without telling both, or could not begin.

        Args:
            model: its name.
            has_ended: False where nobody has said that the stream was whole: that counts from the second time on.
        """
        if model in self._telling:
            return
        if has_ended or model in self._doubtful:
            self._off.add(model)
        self._doubtful.add(model)
