"""Screens that ``regrow top`` puts on top of itself: a text to read, a question to answer, an act to confirm."""

from __future__ import annotations

import json
from typing import Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from trees.command.top.picture import plain
from trees.observe.source import ANSWERS, Shape

_BOX: Final = "border: round $primary; background: $surface; width: 90%; height: auto; max-height: 90%; padding: 0 1;"


class TextScreen(ModalScreen[None]):
    """A text to read: a stack, a child, a task."""

    DEFAULT_CSS = f"TextScreen {{ align: center middle; }} TextScreen VerticalScroll {{ {_BOX} }}"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "app.pop_screen", "Close")]

    def __init__(self, heading: str, text: str) -> None:
        super().__init__()
        self.heading = heading
        self.text = text

    def compose(self) -> ComposeResult:
        """Draw it."""
        with VerticalScroll() as box:
            box.border_title = plain(self.heading).replace("[", "(")
            yield Static(self.text, markup=False)


class ConfirmScreen(ModalScreen[bool]):
    """An act that a person is to confirm; dismissed with whether they did."""

    DEFAULT_CSS = f"ConfirmScreen {{ align: center middle; }} ConfirmScreen Vertical {{ {_BOX} }}"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Yes"),
        Binding("n,enter,escape,q", "dismiss(False)", "No"),
    ]

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def compose(self) -> ComposeResult:
        """Draw it."""
        with Vertical():
            yield Static(f"{self.text}   y/n (Enter: no)", markup=False)


class AnswerScreen(ModalScreen[tuple[str, str | None, Any] | None]):
    """A question, and the four answers; dismissed with the answer, its text and its value, or with None."""

    DEFAULT_CSS = (
        f"AnswerScreen {{ align: center middle; }} AnswerScreen Vertical {{ {_BOX} }} "
        "AnswerScreen Horizontal { height: auto; } AnswerScreen #about { height: auto; max-height: 12; }"
    )
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Close")]

    def __init__(self, question: Shape) -> None:
        super().__init__()
        self.question = question
        self.answers = [each for each in ANSWERS if each in (question.get("answers") or ANSWERS)]

    def compose(self) -> ComposeResult:
        """Draw it."""
        asked = self.question
        told = [f"goal: {asked['goal']}"] if asked.get("goal") else []
        told += [f"instruction: {asked['instruction']}"] if asked.get("instruction") else []
        told += [f"{name}: {text}" for part in ("inputs", "results") for name, text in (asked.get(part) or {}).items()]
        with Vertical():
            with VerticalScroll(id="about"):
                text = asked.get("text") or "Its text is not shown here."
                yield Static(f"{plain(asked['id'])}\n{text}", markup=False, id="asked")
                yield Static("\n".join(told), markup=False)
            yield Input(placeholder="text of respond, reason of reject, JSON of edit", id="given")
            with Horizontal():
                for answer in self.answers:
                    yield Button(answer.capitalize(), id=answer)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Answer, where what goes with the answer is there."""
        answer = event.button.id or ""
        given = self.query_one("#given", Input).value
        try:
            self.dismiss((answer, *goes_with_answer(answer, given)))
        except ValueError as error:
            self.notify(str(error), severity="error", markup=False)


def goes_with_answer(answer: str, given: str) -> tuple[str | None, Any]:
    """Return the text and the value that go with an answer.

    Raises:
        ValueError: the answer needs another one; says which.
    """
    if answer == "edit":
        try:
            return None, json.loads(given)
        except ValueError:
            raise ValueError("edit needs the result, as JSON: a text in quotes of its own") from None
    if answer == "respond" and not given:
        raise ValueError("respond needs a text")
    return (given or None) if answer != "approve" else None, None
