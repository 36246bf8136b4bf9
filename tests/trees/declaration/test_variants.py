"""Variants of a declaration: ``TREE.find(path)`` and ``TREE.replace(path, ...)``."""

from __future__ import annotations

from typing import Any

import pytest

from actors import ConfigError, UnknownPathError, Worker
from actors.testing import FaultyWorker
from trees import Backoff, SupervisorSpec, WorkerSpec, start


class Ledger(Worker):
    def __init__(self, path: str) -> None:
        self.path = path

    def on_receive(self, message: Any) -> Any:
        return f"{self.path}: {message}"


def mail(message: Any) -> Any:
    return message


TREE = SupervisorSpec(
    id="shop",
    children=[
        SupervisorSpec(
            id="billing",
            strategy="one_for_all",
            children=[
                WorkerSpec(id="ledger", actor=Ledger, kwargs={"path": "ledger.db"}, restart="transient", shutdown=2.0),
                WorkerSpec(id="mailer", handle=mail, description="sends mail"),
            ],
        ),
        WorkerSpec(id="parse", handle=mail, pool=2),
    ],
)


def test_specs_can_be_varied_replace_returns_a_checked_copy() -> None:
    faulty = TREE.replace("shop/billing/ledger", actor=FaultyWorker)
    ledger = faulty.find("shop/billing/ledger")
    assert isinstance(ledger, WorkerSpec)
    assert (ledger.actor, ledger.restart, ledger.shutdown) == (FaultyWorker, "transient", 2.0)
    assert ledger.kwargs == {}, "arguments belong to the code"
    with start(faulty) as tree:
        assert tree.ref("shop/billing/ledger").ask(7) == 7
    with start(TREE) as tree:
        assert tree.ref("shop/billing/ledger").ask(7) == "ledger.db: 7", "the declaration itself is as it was"


@pytest.mark.parametrize("path", ["shop", "shop/billing", "shop/billing/ledger", "shop/billing/mailer", "shop/parse"])
def test_find_returns_the_declared_spec_of_each_path(path: str) -> None:
    found = TREE.find(path)
    assert found.id == path.rpartition("/")[2]
    assert found is (TREE if path == "shop" else TREE.find(path))


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "shop/",
        "shop/billing/ledgr",
        "billing/ledger",
        "shop/parse#0",
        "shop/billing/ledger/x",
        "shop//billing",
    ],
)
def test_a_path_of_nothing_is_an_error_that_names_those_near_it(path: str) -> None:
    for call in (lambda: TREE.find(path), lambda: TREE.replace(path, shutdown=1)):
        with pytest.raises(UnknownPathError) as caught:
            call()
        if "ledg" in path:
            assert "shop/billing/ledger" in str(caught.value)


@pytest.mark.parametrize(
    ("path", "changes", "problem"),
    [
        ("shop/billing/ledger", {"restart": "always"}, "shop/billing/ledger.restart"),
        ("shop/billing/ledger", {"actor": mail}, "shop/billing/ledger.actor"),
        ("shop/billing/ledger", {"actor": Ledger}, "shop/billing/ledger.actor"),
        ("shop/billing/mailer", {"handle": "no_such_module:f"}, "shop/billing/mailer.handle"),
        ("shop/billing/mailer", {"handle": None}, "shop/billing/mailer"),
        ("shop/billing/mailer", {"actor": FaultyWorker, "run": mail}, "shop/billing/mailer"),
        ("shop/billing/mailer", {"id": "ledger"}, "shop/billing/ledger"),
        ("shop/billing", {"max_restarts": -1}, "shop/billing.max_restarts"),
        ("shop", {"significant": True}, "shop.significant"),
        ("shop/parse", {"nonsense": 1}, "shop/parse.nonsense"),
    ],
)
def test_a_copy_that_could_not_be_started_is_refused_with_the_whole_path(
    path: str, changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        TREE.replace(path, **changes)
    assert problem in [each.path for each in caught.value.problems]


def test_a_setting_can_differ_in_each_environment() -> None:
    patient = TREE.replace("shop/billing/ledger", backoff=Backoff(initial_s=5)).replace("shop", max_restarts=10)
    ledger, before = patient.find("shop/billing/ledger"), TREE.find("shop/billing/ledger")
    assert isinstance(ledger, WorkerSpec)
    assert isinstance(before, WorkerSpec)
    assert ledger.backoff == Backoff(initial_s=5)
    assert (ledger.actor, ledger.kwargs) == (Ledger, {"path": "ledger.db"}), "what is not named stays"
    assert (patient.max_restarts, TREE.max_restarts, before.backoff) == (10, 3, None)
    assert patient.find("shop/parse") is TREE.find("shop/parse"), "what is the same is shared"


def test_other_code_takes_the_place_of_the_old_whatever_kind_it_is_of() -> None:
    mailer = TREE.replace("shop/billing/mailer", actor=Ledger, args=("outbox",)).find("shop/billing/mailer")
    assert isinstance(mailer, WorkerSpec)
    assert (mailer.actor, mailer.handle, mailer.args) == (Ledger, None, ("outbox",))
    assert mailer.description == "sends mail"


def test_what_was_not_given_stays_not_given() -> None:
    """Some defaults depend on whether a field was given at all."""
    copy = TREE.replace("shop/parse", pool=3).find("shop/parse")
    assert copy.model_fields_set == TREE.find("shop/parse").model_fields_set
