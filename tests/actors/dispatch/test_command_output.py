"""Lines of a command's output: split, cut, counted."""

from __future__ import annotations

import pytest

from actors.dispatch.command.command_output import BURST, KEPT, MOST_LINE, PER_S, Allowance, Lines, Tail, text_of

LONG = b"x" * (MOST_LINE + 100)


def fed(parts: list[bytes], most: int = 1000) -> list[bytes]:
    """All lines that come of these parts, with the rest at the end."""
    lines = Lines()
    found = [line for part in parts for line in lines.feed(part, most)[0]]
    return found + lines.end()


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([b"a\nb\n"], [b"a", b"b"]),
        ([b"a", b"b\nc"], [b"ab", b"c"]),
        ([b"\n\n"], [b"", b""]),
        ([b"a\n", b"\n", b"b"], [b"a", b"", b"b"]),
        ([], []),
        ([LONG + b"\nend\n"], [LONG, b"end"]),
        ([LONG, b"more", b"rest\nend\n"], [LONG[: MOST_LINE + 1], b"end"]),
        ([LONG, b"\nend"], [LONG[: MOST_LINE + 1], b"end"]),
        ([LONG, LONG], [LONG[: MOST_LINE + 1]]),
        ([LONG[:MOST_LINE], b"xx", b"y\n"], [LONG[: MOST_LINE + 1]]),
    ],
)
def test_lines_are_put_together_and_the_rest_of_a_long_one_is_left_out(
    parts: list[bytes], expected: list[bytes]
) -> None:
    assert fed(parts) == expected


@pytest.mark.parametrize("most", [0, 1, 3, 100])
def test_more_lines_than_may_be_passed_on_are_counted_and_the_last_are_kept(most: int) -> None:
    sent = [b"%d" % number for number in range(100)]

    now, tail, lost = Lines().feed(b"\n".join(sent) + b"\n", most)

    assert now == sent[:most]
    assert lost == 100 - most
    assert tail == (sent[most:][-KEPT:] if lost else [])


def test_a_line_is_cut_at_8_kib_and_decoded_with_replacement() -> None:
    assert text_of(LONG) == "x" * 8192
    assert text_of(b"caf\xc3\xa9 \xff\r") == "café \ufffd"


def test_the_allowance_is_a_burst_and_then_so_many_a_second() -> None:
    now = [0.0]
    allowance = Allowance(lambda: now[0])

    assert allowance.lines() == BURST
    allowance.spend([b""] * BURST)
    assert allowance.lines() == 0
    now[0] += 0.5
    assert allowance.lines() == PER_S // 2
    now[0] += 1000
    assert allowance.lines() == BURST
    allowance.spend([LONG] * 2000)
    assert allowance.lines() == 0


def test_the_tail_has_the_last_20_lines_of_all() -> None:
    tail = Tail()
    tail.add([b"%d" % number for number in range(30)])
    tail.add([b"last"])

    assert tail.texts() == (*map(str, range(11, 30)), "last")
