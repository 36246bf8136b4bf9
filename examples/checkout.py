"""An order, from cart to confirmation; each step has its own way of dealing with what goes wrong.

    python examples/checkout.py                          all is well
    python examples/checkout.py --input fail=stock       sold out: the payment is refunded, exactly once
    python examples/checkout.py --input fail=payment     the card provider is down: a breaker opens, the bank takes over
    python examples/checkout.py --input fail=confirm     the mail bounces: you are asked what to do
    python examples/checkout.py --input fail=confirm --store sqlite:///shop.db </dev/null
                                                         the same, and the answer comes from another terminal:
                                                         regrow tasks respond ESCALATION approve --store ...
    regrow check examples/checkout.py                    draws the tree without starting it

=============  =======================================================================================================
cart           what is wrong stays wrong: no second try, nothing was done yet, the order ends
payment        a team: the card is tried three times, then the bank goes on; can be refunded. When a second
               order finds the card down, its breaker opens, and the bank has all the work at once
stock          a team of one: a reservation, which can be released
confirm        tries twice, then a person decides; if they say no, all is undone, the newest first
=============  =======================================================================================================

Providers are in reality somewhere else. Here a worker with a memory stands for them, which honours the idempotency
key, as those do: what comes twice is done once. Where stdin is no terminal, the question is answered with ``approve``;
``--input answers=stdin`` reads the answers from it all the same. With a store it waits for ``regrow tasks respond``
then, as it does with ``--input answers=elsewhere``.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any, TypeAlias

from loguru import logger

import actors
from actors import (
    Compensated,
    Context,
    Done,
    EscalationAnswered,
    Failed,
    SubtaskFailed,
    SubtaskRetrying,
    TaskEvent,
    Usage,
    Worker,
)
from trees import (
    Approve,
    Breaker,
    Edit,
    Escalate,
    Escalation,
    Failover,
    Reject,
    Report,
    Respond,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
    TaskHandle,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)

Answer: TypeAlias = Approve | Edit | Reject | Respond
PRICES = {"tea": 4, "pot": 19}
QUICK = Retry(max_attempts=3, initial_s=0.05, jitter=0.0)
PATIENCE_S = 600.0
"""What a person has to answer."""


class Book(Worker):
    """What a provider knows: every act once, under its idempotency key. Refunds and releases are acts as well."""

    def on_start(self) -> None:
        """Nothing has happened yet."""
        self._acts: dict[str, str] = {}

    def on_receive(self, message: tuple[str, str] | None) -> list[str]:
        """Note an act; None only asks what there is. The second time the same key says nothing new."""
        if message is not None:
            self._acts.setdefault(*message)
        return list(self._acts.values())


def note(context: Context, act: str) -> None:
    """Have the provider do something."""
    actors.ref("shop/book").ask((context.idempotency_key, act))


# -- the steps --------------------------------------------------------------------------------------------------


def cart(task: Subtask, context: Context) -> int:  # noqa: ARG001 - every execute has both
    """What the order costs. A cart that is wrong now is wrong the next time, too."""
    unknown = [item for item in context.inputs["items"] if item not in PRICES]
    if unknown or not context.inputs["items"]:
        raise Failed(f"unknown items: {len(unknown)}" if unknown else "the cart is empty", retryable=False)
    return sum(PRICES[item] for item in context.inputs["items"])


async def card(task: Subtask, context: Context) -> Done:  # noqa: ARG001
    """Charge the card."""
    if context.inputs["fail"] == "payment":
        raise ConnectionError("the card provider does not answer")
    return await charged(context, "card")


async def bank(task: Subtask, context: Context) -> Done:  # noqa: ARG001
    """Charge the account: dearer, and there when the card is not."""
    return await charged(context, "bank")


async def charged(context: Context, how: str) -> Done:
    """Charge what the cart said; a team's members see what came before under ``results`` of their inputs."""
    amount = context.results["cart"]
    # On the event loop, so it awaits: a blocking ask would hold up all other async workers, and is refused.
    await actors.ref("shop/book").ask_async((context.idempotency_key, f"{how}: charged {amount}"))
    return Done({"how": how, "amount": amount}, usage=Usage(cost=0.02 * amount))


def refund(task: Subtask, result: dict[str, Any] | None, context: Context) -> None:  # noqa: ARG001
    """Give back what was charged. ``None``: nobody knows whether it was, so the provider has to look."""
    note(context, f"{result['how']}: refunded {result['amount']}" if result else "looked for a charge to refund")


def reserve(task: Subtask, context: Context) -> list[str]:  # noqa: ARG001
    """Put the items aside."""
    if context.inputs["fail"] == "stock":
        raise Failed("sold out", retryable=False)
    note(context, f"stock: reserved {len(context.inputs['items'])}")
    return list(context.inputs["items"])


def release(task: Subtask, result: list[str] | None, context: Context) -> None:  # noqa: ARG001
    """Put them back."""
    note(context, f"stock: released {len(result or [])}")


def confirm(task: Subtask, context: Context) -> str:  # noqa: ARG001
    """Tell the customer. The bad address is bad until somebody gives another one, or says that it was mended."""
    to = context.feedback or context.inputs["customer"]
    if context.inputs["fail"] == "confirm" and not context.feedback and context.attempt <= SENT:
        raise ConnectionError("the mail came back")
    note(context, f"mail: confirmed to {to}")
    return f"confirmed to {to}"


ELSEWHERE = "elsewhere"
SENT = 2
"""How often a mail is sent before somebody is asked."""

TREE = SupervisorSpec(
    id="shop",
    tasks=Tasks(
        planner=StaticPlan(
            [
                Subtask("cart"),
                Subtask("payment", depends_on=["cart"]),
                Subtask("stock", depends_on=["cart", "payment"]),
                Subtask("confirm", depends_on=["stock"]),
            ]
        )
    ),
    children=[
        WorkerSpec(id="book", actor=Book),
        WorkerSpec(id="cart", execute=cart, output=int),
        SupervisorSpec(
            id="payment",
            strategy="one_for_all",
            on_failure=[],  # its own ladders are enough: a team that has given up does not get another try
            tasks=Tasks(planner=StaticPlan([Subtask("charge", worker="card")])),
            children=[
                WorkerSpec(
                    id="card",
                    execute=card,
                    undo=refund,
                    timeout_s=10.0,
                    backup="bank",
                    on_failure=[QUICK, Failover()],
                    breaker=Breaker(failure_threshold=2, cooldown_s=30.0),
                ),
                WorkerSpec(id="bank", execute=bank, undo=refund, timeout_s=10.0, on_failure=[QUICK]),
            ],
        ),
        SupervisorSpec(
            id="stock",
            on_failure=[],
            tasks=Tasks(planner=StaticPlan([Subtask("reserve")])),
            children=[WorkerSpec(id="reserve", execute=reserve, undo=release, on_failure=[QUICK])],
        ),
        WorkerSpec(
            id="confirm",
            execute=confirm,
            on_failure=[Retry(max_attempts=SENT, initial_s=0.05), Escalate(timeout_s=PATIENCE_S)],
        ),
    ],
)


# -- the host ----------------------------------------------------------------------------------------------------


def main(tree: Tree, fail: str = "", answers: str = "") -> None:
    """Have one order done by a running tree (with ``fail=payment`` three), and print what became of it.

    Raises:
        ValueError: there is no such failure.
    """
    if fail not in {"", "stock", "payment", "confirm"}:
        raise ValueError(f"fail={fail}: it is stock, payment or confirm")
    logger.disable("actors")  # what is logged is what is shown here
    order(tree, fail, answers)
    if fail == "payment":
        print("\nThe second order tries the card, too: then two orders have found it down, and its breaker opens.")
        order(tree, fail, answers)
        print("\nThe third order does not even try the card: the breaker is open.")
        order(tree, fail, answers)
    print("\nWhat the providers have done:", *tree.ref("shop/book").ask(None), sep="\n  ")
    for row in tree.registry("shop/payment"):
        print(f"{row.path}: breaker {row.breaker}")


def order(tree: Tree, fail: str, answers: str) -> None:
    """Submit an order, answer its questions, and print its end."""
    inputs = {"customer": "cleo@example.org", "items": ["tea", "tea", "pot"], "fail": fail}
    handle = tree.submit(Task("order two teas and a pot", inputs=inputs))
    for question in handle.questions():
        ask(handle, question, answers)
    try:
        report: Report | None = handle.result()
    except TaskFailedError as error:
        report = error.report
    for event in handle.events():  # what its teams have done is among it
        if said := line(event):
            print(f"  {said}")
    if report is not None:
        show(report)
    print(handle.dump())


def line(event: TaskEvent) -> str:
    """What is worth a line of what happened; nothing for the rest."""
    if isinstance(event, SubtaskRetrying):
        return f"{event.path}/{event.subtask}: attempt {event.attempt} with {event.worker} failed: {event.error}"
    if isinstance(event, SubtaskFailed):
        return f"{event.path}/{event.subtask}: failed: {event.error}"
    if isinstance(event, EscalationAnswered):
        return f"{event.path}/{event.subtask}: a person answered: {event.answer}"
    if isinstance(event, Compensated):
        return f"{event.path}/{event.subtask}: undone by {event.worker}"
    return ""


def ask(handle: TaskHandle, question: Escalation, answers: str) -> None:
    """Have a person answer, here or elsewhere."""
    print(f"\n{question.subtask}: {question.question}")
    if answers == ELSEWHERE:
        print(f"answer it with: regrow tasks respond {question.id} approve --store URL", flush=True)
        return
    handle.respond(question.id, answer(answers))


def answer(answers: str) -> Answer:
    """What a person says to it here."""
    if answers != "stdin" and not sys.stdin.isatty():
        print("stdin is no terminal; answered: approve")
        return Approve()
    while True:
        word, _, rest = input("approve | edit RESULT | respond ADDRESS | reject WHY > ").strip().partition(" ")
        if word == "approve":
            return Approve()
        if word in {"edit", "respond"} and rest:
            return Edit(rest) if word == "edit" else Respond(rest)
        if word == "reject":
            return Reject(rest)


def show(report: Report) -> None:
    """Print what became of an order."""
    print(f"\norder: {report.status}")
    for what, lines in (("failed", report.failed), ("skipped", report.skipped), ("not undone", report.undo_errors)):
        for name, why in lines.items():
            print(f"  {what}: {name}: {why}")
    print(f"  undone: {', '.join(report.compensated) or 'nothing'}; cost of payment {report.usage.cost:.2f}\n")


def run() -> None:
    """As a program: start the tree, order, show the tree as it is then."""
    parser = argparse.ArgumentParser(description="An order from cart to confirmation, with or without a failure.")
    parser.add_argument("--input", action="append", default=[], metavar="NAME=VALUE", help="fail=WHAT, answers=WHERE")
    parser.add_argument("--store", metavar="URL", help="where orders are kept; by default in memory")
    given = parser.parse_args()
    inputs = dict(each.split("=", 1) for each in given.input if "=" in each)
    if set(inputs) - {"fail", "answers"}:
        parser.error("the inputs are fail=stock|payment|confirm and answers=stdin|elsewhere")
    if given.store is not None and not sys.stdin.isatty():
        inputs.setdefault("answers", ELSEWHERE)
    with start(TREE, store=given.store) as tree:
        main(tree, **inputs)
        print(f"\n{tree.dump()}")


if __name__ == "__main__":
    try:
        run()
    except (KeyboardInterrupt, EOFError):
        sys.exit("stopped: nobody answers")
