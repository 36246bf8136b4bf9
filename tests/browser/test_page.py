"""Walk through the page in a real browser: what a person sees and does, with a picture of each step."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from actors import Context
from actors.testing import settle
from tests.browser.conftest import TOKEN
from tests.browser.shop import BEGAN, SCRIPT, Shop, bar, row, task
from tests.support.hardening import Gate
from trees import Alert, Log, Retry, SupervisorSpec, Task, Tasks, Web, WorkerSpec, start

pytestmark = pytest.mark.slow

BILLING = "tr[data-path='shop/billing']"
VIEWS = {
    "tree/shop": "aside.panel .none",
    "tree": "tr[data-path]",
    "tasks": ".tasks tbody tr",
    "tasks/t-1": ".dag .node",
    "questions": "article.card",
    "now": ".now table",
}
"""Each view, and what it has once it is drawn."""
LEDGER = "tr[data-path='shop/billing/ledger']"


def show(page: Any, view: str, ready: str) -> None:
    """Go to a view, and wait until it is drawn."""
    page.evaluate("(view) => { location.hash = '#/' + view }", view)
    page.wait_for_selector(ready)


def of_all(page: Any, selector: str, expression: str) -> Any:
    """Value of a function of all elements that a selector finds, in one step of the page.

    ``eval_on_selector_all`` takes two: what is drawn anew between them has no boxes and no text any more.
    """
    return page.evaluate(f"(selector) => ({expression})([...document.querySelectorAll(selector)])", selector)


def told(page: Any, selector: str) -> str:
    """Text of an element."""
    text: str = page.inner_text(selector)
    return text


def picture(page: Any, folder: Path, name: str) -> None:
    """Keep a picture of the page as it is."""
    (folder / name).write_bytes(page.screenshot())


def until(page: Any, expression: str, value: Any = None) -> None:
    """Wait until an expression of the page is true: asked from outside, because its policy forbids to evaluate text."""
    for _ in range(1_000):
        if page.evaluate(expression, value):
            return
        page.wait_for_timeout(20)
    pytest.fail(f"never true: {expression}")


def broken(page: Any) -> bool:
    """Say whether markup of a text has run."""
    return bool(page.evaluate("Boolean(window.broken) || document.querySelector('main img, main script') !== null"))


def test_a_crash_is_seen_in_its_row_and_beside_the_tree_with_its_frames(page: Any, shop: Shop, pictures: Path) -> None:
    assert told(page, f"{LEDGER} .badge") == "running"
    shop.crash("shop/billing/ledger", "no number")
    page.wait_for_selector(f"{LEDGER}.flash [data-state=restarting]")
    picture(page, pictures, "crash.png")
    page.wait_for_selector(f"{LEDGER} .spark[aria-label='1 restart in the last minute']")
    page.click(LEDGER)
    page.wait_for_selector("aside.panel .exit")
    assert "TypeError" in told(page, "aside.panel .exit")
    assert "no number" in told(page, "aside.panel .error")
    assert "ledger.py:14 in on_receive" in told(page, "aside.panel .exit pre")
    picture(page, pictures, "child.png")
    row_ = next(each for each in shop.rows if each["path"] == "shop/billing/ledger")
    row_.update(state="running", incarnation=4)
    shop.tell("child_started", "shop/billing/ledger", incarnation=4)
    page.wait_for_selector(f"{LEDGER} [data-state=running]")
    until(page, "(path) => document.querySelector(path + ' .incarnation').textContent === '4'", LEDGER)


def test_a_real_tree_shows_a_crash_as_it_happens_and_a_task_that_was_tried_again(browser: Any) -> None:
    def research(task: Task, context: Context) -> int:
        if context.attempt == 1:
            raise ConnectionError("no route")
        return 3

    children = [WorkerSpec(id="parse", handle=int), WorkerSpec(id="research", execute=research)]
    office = SupervisorSpec(id="office", tasks=Tasks(on_failure=[Retry(initial_s=0.01)]), children=children)
    page = browser.new_page()
    with start(office) as tree, closing(page):
        page.goto(tree.serve(0).url)
        page.wait_for_selector("[data-live=live]")
        tree.ref("office/parse").tell("no number")
        page.wait_for_selector("tr[data-path='office/parse'] .spark[aria-label='1 restart in the last minute']")
        page.click("tr[data-path='office/parse']")
        page.wait_for_selector("aside.panel .exit >> text=ValueError")
        tree.submit(Task("research it", id="t-9")).result()
        show(page, "tasks/t-9", ".bar[data-kind=running][data-status=succeeded]")
        bars = of_all(page, ".track .bar", "bars => bars.map(bar => bar.ariaLabel.split(',').slice(1, 3))")
        assert [" attempt 1 by research: running", " failed"] in bars
        assert [" attempt 2 by research: running", " succeeded"] in bars


def test_a_restart_that_is_told_of_before_the_first_rows_are_drawn_counts_once(
    browser: Any, shop: Shop, address: str
) -> None:
    """Orders: the event, then what was seen before it; the other order is that of every restart."""
    seen, told_of, look = threading.Event(), threading.Event(), shop.snapshot

    def slow_look(*args: Any, **options: Any) -> Any:
        found = copy.deepcopy(look(*args, **options))
        seen.set()
        assert told_of.wait(30)
        return found

    shop.snapshot = slow_look  # type: ignore[method-assign]
    page, heard = browser.new_page(), list[str]()
    with closing(page):
        watched = page.context.new_cdp_session(page)
        watched.on("Network.eventSourceMessageReceived", lambda event: heard.append(event["data"]))
        watched.send("Network.enable")
        page.goto(address)
        page.wait_for_selector("#live[data-live=live]")
        assert seen.wait(30)
        shop.crash("shop/billing/ledger", "no number")
        while not any("child_restarting" in each for each in heard):
            page.wait_for_timeout(10)
        row_ = next(each for each in shop.rows if each["path"] == "shop/billing/ledger")
        row_.update(state="running", incarnation=4, restarted_at=[shop.at])
        told_of.set()
        until(page, "(path) => document.querySelector(path + ' .incarnation')?.textContent === '4'", LEDGER)
        assert page.get_attribute(f"{LEDGER} .spark", "aria-label") == "1 restart in the last minute"


def test_a_restart_that_was_seen_before_its_event_came_is_counted_once(page: Any, shop: Shop) -> None:
    row_ = next(each for each in shop.rows if each["path"] == "shop/billing/ledger")
    row_.update(restarted_at=[shop.at])
    shop.tell("child_started", "shop/poller", incarnation=1)
    page.wait_for_selector(f"{LEDGER} .spark[aria-label='1 restart in the last minute']")
    shop.crash("shop/billing/ledger", "no number")
    page.wait_for_selector(f"{LEDGER} [data-state=restarting]")
    assert page.get_attribute(f"{LEDGER} .spark", "aria-label") == "1 restart in the last minute"


def test_an_alert_that_fires_is_shown_now_and_goes_when_it_is_over(browser: Any) -> None:
    spec = SupervisorSpec(id="shop", children=[WorkerSpec(id="parse", handle=int)])
    too_few = Alert("too few children", lambda snapshot: len(snapshot.top.children) < 2, Log())
    page = browser.new_page()
    with start(spec, alerts=[too_few]) as tree, closing(page):
        page.goto(tree.serve(0).url + "#/now")
        page.wait_for_selector("text=▲ too few children")
        tree.start_child("shop", WorkerSpec(id="more", handle=int))
        page.wait_for_selector("text=▲ too few children", state="detached")
        page.wait_for_selector("table[aria-label=Events] tr:has-text('alert changed'):has-text('state resolved')")


def test_an_event_below_a_folded_pool_lights_up_the_pool(page: Any, shop: Shop) -> None:
    parse = "tr[data-path='shop/parse']"
    shop.crash("shop/parse#3", "no number")
    page.wait_for_selector(f"{parse}.flash")
    page.wait_for_selector(f"{parse} .spark[aria-label='1 restart in the last minute']")
    assert page.query_selector("tr[data-path='shop'].flash") is None


def test_restarts_of_before_the_page_was_opened_are_in_its_sparklines(browser: Any) -> None:
    page = browser.new_page()
    spec = SupervisorSpec(id="shop", max_restarts=10, children=[WorkerSpec(id="parse", handle=int)])
    with start(spec, web=Web(port=0)) as tree, closing(page):
        for _ in range(2):
            tree.ref("shop/parse").tell("no number")
            settle(tree)
        page.goto(tree.page.url)
        page.wait_for_selector("tr[data-path='shop/parse'] .spark[aria-label='2 restarts in the last minute']")
        page.wait_for_selector("[data-live=live]")
        tree.ref("shop/parse").tell("no number")
        page.wait_for_selector("tr[data-path='shop/parse'] .spark[aria-label='3 restarts in the last minute']")


def test_how_much_of_its_restart_limit_a_supervisor_has_used_up_is_shown(browser: Any) -> None:
    page = browser.new_page()
    spec = SupervisorSpec(id="shop", max_restarts=2, period_s=3600.0, children=[WorkerSpec(id="a", handle=int)])
    near = "tr[data-path='shop'] [data-near=yes]"
    with start(spec, web=Web(port=0)) as tree, closing(page):
        page.goto(tree.page.url)
        page.wait_for_selector("tr[data-path='shop'] .restarts >> text=0/2 in 1 h")
        for used in (1, 2):
            assert page.query_selector(near) is None
            tree.ref("shop/a").tell("no number")
            page.wait_for_selector(f"tr[data-path='shop'] .restarts >> text={used}/2 in 1 h")
        page.wait_for_selector(near)
        page.click("tr[data-path='shop']")
        page.wait_for_selector("aside.panel dd >> text=2 of 2 restarts in 1 h")


def test_of_the_last_exits_the_newest_that_says_why_is_open(page: Any, shop: Shop) -> None:
    shop.crash("shop/billing/ledger", "no number")
    shutdown = {"at": shop.at, "reason": "shutdown", "type": "shutdown", "text": None, "lasted_s": 0.0, "frames": []}
    shop.exits.insert(0, shutdown)
    page.click(LEDGER)
    page.wait_for_selector("aside.panel .exit + .exit")
    assert of_all(page, "aside.panel .exit", "all => all.map(each => each.open)")[:2] == [False, True]
    page.wait_for_selector("aside.panel .exit[open] >> text=no number")


def test_a_stack_is_shown_from_its_end_where_the_code_of_the_worker_stands(browser: Any) -> None:
    gate, page = Gate(), browser.new_page()
    with start(SupervisorSpec(id="shop", children=[WorkerSpec(id="slow", handle=gate)])) as tree, closing(page):
        tree.ref("shop/slow").tell("go")
        gate.wait_reached()
        page.goto(tree.serve(0).url + "#/tree/shop%2Fslow")
        page.click("aside.panel >> text=Show stack")
        page.wait_for_selector("aside.panel pre[aria-label=Stack] >> text=hardening.py")
        stack = "document.querySelector('pre[aria-label=Stack]')"
        until(page, f"{stack}.scrollTop > 0 && {stack}.scrollTop + {stack}.clientHeight >= {stack}.scrollHeight - 2")
        gate.open.set()


def test_numbers_and_moments_of_an_event_are_readable(page: Any, shop: Shop) -> None:
    show(page, "now", ".now table")
    shop.tell("subtask_retrying", "office", queued_s=0.0001811981201171875, due=BEGAN, attempt=1)
    page.wait_for_selector("table[aria-label=Events] td:has-text('queued s 0.000181 · due ')")
    assert str(int(BEGAN)) not in told(page, "table[aria-label=Events]")


def test_a_button_waits_until_its_act_is_done(browser: Any) -> None:
    gate, page = Gate(), browser.new_page()
    slow = WorkerSpec(id="slow", handle=gate, shutdown="infinity")
    with start(SupervisorSpec(id="shop", children=[slow])) as tree, closing(page):
        tree.ref("shop/slow").tell("go")
        gate.wait_reached()
        page.goto(tree.serve(0).url + "#/tree/shop%2Fslow")
        page.click("aside.panel button >> text=Restart")
        page.wait_for_selector("aside.panel button:disabled >> text=Restart")
        gate.open.set()
        page.wait_for_selector("text=shop/slow is being restarted.")
        page.wait_for_selector("aside.panel button:enabled >> text=Restart")
        until(page, "document.querySelector(\"tr[data-path='shop/slow'] .incarnation\").textContent === '2'")


def test_of_many_restarts_the_newest_are_listed_first(page: Any, shop: Shop) -> None:
    shop.restarts = [{"at": shop.at - 60 * number, "attempt": number, "delay_s": 0.0} for number in range(1, 31)]
    page.click(LEDGER)
    page.wait_for_selector("aside.panel table[aria-label=Restarts]")
    rows = "rows => rows.map(row => row.children[1].textContent)"
    assert of_all(page, "table[aria-label=Restarts] tbody tr", rows) == [str(n) for n in range(1, 9)]


def test_what_a_store_says_of_an_act_that_is_yet_to_be_done_is_shown(page: Any, shop: Shop) -> None:
    shop.says = "escalation q-1: no tree has taken this yet. It waits in the store, and is done when 'shop' runs"
    show(page, "questions", "article.card")
    page.click("article.card button >> text=Approve")
    page.wait_for_selector(f'text="{shop.says}"')


def test_the_node_of_a_cluster_is_shown_where_a_worker_runs(page: Any, shop: Shop) -> None:
    node = "0fa3" * 14
    shop.rows[4].update(node=node)
    shop.tell("child_started", "shop/billing/ledger", incarnation=4)
    until(page, "(path) => document.querySelector(path + ' .where').textContent === 'node 0fa30fa30fa…'", LEDGER)
    page.click(LEDGER)
    page.wait_for_selector(f"aside.panel dd >> text={node}")


def test_a_timeline_has_a_bar_for_each_attempt_and_the_graph_goes_from_left_to_right(page: Any, pictures: Path) -> None:
    show(page, "tasks/t-1", ".lane[data-id=research] .bar")
    bars = of_all(page, ".lane[data-id=research] .bar", "bars => bars.map(bar => bar.ariaLabel)")
    assert bars == [
        "research, attempt 1 by research: queued, 0.2 s",
        "research, attempt 1 by research: running, failed, ConnectionError, 1.9 s",
        "research, attempt 1 by research: waits for a retry, 1.0 s",
        "research, attempt 2 by research: running, succeeded, 1.9 s",
    ]
    edges = of_all(page, ".lane[data-id=research] .bar", "b => b.map(b => b.getBoundingClientRect().left)")
    assert edges == sorted(edges)
    lefts = of_all(page, ".dag .node", "n => n.map(n => [n.ariaLabel, n.getBoundingClientRect().left])")
    place = {name.split(",")[0]: left for name, left in lefts}
    assert place["research"] == place["compare"] < place["write"] < place["sign"]
    page.click(".lane[data-id=research]")
    assert "ConnectionError" in told(page, ".picked")
    for text in ("8,412", "Name the licence of each.", "3 candidates: pgvector", "no route"):
        assert text in told(page, "article.task")
    picture(page, pictures, "timeline.png")


def test_a_question_is_answered_from_the_page(page: Any, shop: Shop, pictures: Path) -> None:
    assert told(page, "#asking") == "1"
    show(page, "questions", "article.card")
    picture(page, pictures, "question.png")
    page.click("text=Respond")
    assert page.get_attribute("article.card textarea", "aria-invalid") == "true", "an answer without a text is none"
    page.fill("article.card textarea", '{"send": true}')
    page.click("text=Edit")
    page.wait_for_selector("text=Nothing waits for a person.")
    assert shop.done == [{"question": "q-1", "answer": "edit", "text": None, "value": {"send": True}}]
    page.wait_for_selector("#asking", state="hidden")


def test_a_form_keeps_what_is_typed_while_the_page_looks_again(page: Any, shop: Shop) -> None:
    show(page, "questions", "article.card")
    page.fill("article.card textarea", "half an ans")
    shop.asking.append({**shop.asking[0], "id": "q-2"})
    shop.tell("escalation_raised", "office", task="t-1", subtask="ship")
    until(page, "document.querySelectorAll('article.card').length === 2")
    assert page.input_value("article.card textarea >> nth=0") == "half an ans"


def test_the_colours_are_those_of_the_system_unless_a_switch_says_otherwise(page: Any, pictures: Path) -> None:
    back = "getComputedStyle(document.body).backgroundColor"
    page.emulate_media(color_scheme="light")
    light = page.evaluate(back)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(back)
    assert light != dark
    picture(page, pictures, "dark.png")
    page.click("#theme")
    assert (page.get_attribute("#theme", "aria-label"), page.evaluate(back)) == ("Colours: light", light)
    page.emulate_media(color_scheme="light")
    page.click("#theme")
    assert (page.get_attribute("#theme", "aria-label"), page.evaluate(back)) == ("Colours: dark", dark)
    page.click("#theme")
    assert page.evaluate(back) == light


def test_of_100_000_children_500_are_drawn_and_an_update_touches_what_has_changed(
    page: Any, shop: Shop, pictures: Path
) -> None:
    shop.rows = [row("shop", "supervisor"), *(row(f"shop/w-{number}") for number in range(100_000))]
    shop.tell("child_started", "shop/w-0", incarnation=1)
    page.wait_for_selector("tr[data-path='shop/w-498']")
    assert len(page.query_selector_all("tr[data-path]")) == 500
    page.wait_for_selector("text=500 of 100,001 children here. No more than 500 are drawn")
    picture(page, pictures, "crowd.png")
    page.evaluate(
        """() => { window.touched = new Set(); new MutationObserver((all) => {
            for (const each of all) touched.add(each.target.parentElement.closest('tr')?.dataset.path);
        }).observe(document.querySelector('.tree tbody'), {childList: true, subtree: true, characterData: true}) }"""
    )
    shop.rows[7]["mailbox"] = 5
    shop.tell("child_started", "shop/w-0", incarnation=1)
    until(page, "document.querySelector(\"tr[data-path='shop/w-6'] .mailbox\").textContent === '5'")
    assert page.evaluate("[...touched]") == ["shop/w-6"]
    page.fill("input[type=search]", "w-49")
    assert len(page.query_selector_all("tr[data-path]")) == 11  # shop, w-49 and w-490 to 498


def test_a_child_that_is_not_drawn_is_found_by_its_id(page: Any, shop: Shop) -> None:
    shop.rows = [row("shop", "supervisor"), *(row(f"shop/w-{number}") for number in range(20_000))]
    shop.tell("child_started", "shop/w-0", incarnation=1)
    page.wait_for_selector("tr[data-path='shop/w-498']")
    page.fill("input[type=search]", "w-17777")
    page.wait_for_selector("tr[data-path='shop/w-17777']")
    assert len(page.query_selector_all("tr[data-path]")) == 2
    page.fill("input[type=search]", "W-1")
    page.wait_for_selector("text=11,111 pass the filter")
    assert len(page.query_selector_all("tr[data-path]")) == 500
    page.fill("input[type=search]", "nobody")
    page.wait_for_selector("text=No child passes the filter.")
    page.fill("input[type=search]", "")
    page.wait_for_selector("tr[data-path='shop/w-498']")


def test_of_a_task_of_2_000_subtasks_what_runs_or_failed_is_drawn_first(page: Any, shop: Shop) -> None:
    names = [f"s-{number:04}" for number in range(2_000)]
    crowd = task("t-2", "many", [bar(each, "running", 0.0, 1.0) for each in names], {each: [] for each in names})
    crowd["nodes"][1_999].update(status="failed")
    shop.runs["t-2"] = crowd
    show(page, "tasks/t-2", ".lane[data-id]")
    assert len(page.query_selector_all(".lane[data-id]")) == 300
    assert page.get_attribute(".lane[data-id] >> nth=0", "data-id") == "s-1999"
    assert len(page.query_selector_all(".dag .node")) == 2


def test_markup_in_a_text_is_shown_as_text(page: Any, shop: Shop, pictures: Path) -> None:
    path = f"shop/{SCRIPT.replace('/', '|')}"
    shop.rows.append(row(path, node=SCRIPT))
    shop.runs["t-3"] = task(
        SCRIPT, SCRIPT, [bar(SCRIPT, "running", 0.0, 1.0, error=SCRIPT)], {SCRIPT: []}, report=SCRIPT
    )
    shop.runs["t-3"]["log"] = [{"at": BEGAN, "kind": SCRIPT, "subtask": SCRIPT, "text": SCRIPT}]
    shop.asking[0].update(text=SCRIPT, task=SCRIPT, subtask=SCRIPT)
    shop.crash(path, SCRIPT)
    page.locator("tr[data-path]", has_text="window.broken").click()
    page.wait_for_selector("aside.panel .exit")
    assert told(page, "aside.panel .error") == SCRIPT
    picture(page, pictures, "markup.png")
    for view, ready in (("tasks", ".tasks tbody tr >> nth=1"), ("tasks/t-3", ".dag .node"), ("questions", ".question")):
        show(page, view, ready)
        assert SCRIPT[:8] in told(page, "main")
        assert not broken(page)
    show(page, "now", ".now table")
    page.wait_for_selector("text=child exited")
    assert not broken(page)


def test_a_wrong_token_does_nothing_and_the_right_one_can_be_given_then(page: Any, shop: Shop, pictures: Path) -> None:
    assert "token" not in page.url, "a link that is copied from the address does not give the token away"
    page.evaluate("sessionStorage.setItem('regrow-token', 'of-an-earlier-tree')")
    page.click(LEDGER)
    page.click("aside.panel button >> text=Restart")
    page.wait_for_selector("dialog[open]")
    assert "not the one that the program has printed" in told(page, "dialog")
    picture(page, pictures, "token.png")
    assert shop.done == []
    page.fill("dialog input", TOKEN)
    page.keyboard.press("Enter")
    page.wait_for_selector("text=shop/billing/ledger is being restarted.")
    assert shop.done == [{"path": "shop/billing/ledger", "act": "restart"}]


def test_a_child_is_ended_only_when_it_was_asked_whether_it_should(page: Any, shop: Shop) -> None:
    show(page, "tree/shop%2Fbilling%2Fledger", "aside.panel .exit, aside.panel .none")
    page.click("aside.panel >> text=Terminate")
    page.click("dialog >> text=Leave it")
    page.wait_for_selector("dialog", state="detached")
    assert shop.done == []
    page.click("aside.panel >> text=Terminate")
    page.click("dialog >> text=Do it")
    page.wait_for_selector("text=shop/billing/ledger is being ended.")
    assert shop.done == [{"path": "shop/billing/ledger", "act": "terminate"}]


def test_everything_is_reached_by_keys(page: Any) -> None:
    press: Callable[[str], None] = page.keyboard.press
    at = "document.activeElement.dataset.path"
    for key, path in (
        ("ArrowDown", "shop"),
        ("End", "shop/feed"),
        ("Home", "shop"),
        ("ArrowDown", "shop/poller"),
        ("ArrowDown", "shop/parse"),
        ("ArrowDown", "shop/billing"),
    ):
        press(key)
        assert page.evaluate(at) == path
    press("ArrowLeft")
    assert (page.get_attribute(BILLING, "aria-expanded"), page.query_selector(LEDGER)) == ("false", None)
    press("ArrowRight")
    page.wait_for_selector(LEDGER)
    press("ArrowDown")
    press("ArrowLeft")
    assert page.evaluate(at) == "shop/billing"
    press("Enter")
    page.wait_for_selector("aside.panel h2 >> text=billing")
    press("Escape")
    page.wait_for_selector("aside.panel", state="hidden")
    press("/")
    page.keyboard.type("mail")
    until(page, "document.querySelectorAll('tr[data-path]').length === 3")  # shop, billing, mailer
    press("Escape")
    press("?")
    page.wait_for_selector("dialog[open] kbd")
    press("Escape")
    press("2")
    page.wait_for_selector(".tasks tbody tr")
    press("ArrowDown")
    press("Enter")
    page.wait_for_selector("article.task")


def test_nothing_sticks_out_of_a_phone(page: Any, pictures: Path) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    for view, ready in VIEWS.items():
        show(page, view, ready)
        picture(page, pictures, f"phone-{view.replace('/', '-')}.png")
        assert page.evaluate("document.documentElement.scrollWidth") == 390, view


def test_a_moment_is_one_line_also_on_a_phone(page: Any, shop: Shop) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    shop.crash("shop/billing/ledger", "no number")
    show(page, "now", "table[aria-label='Recent crashes'] time")
    lines = "all => Math.max(...all.map(each => each.getClientRects().length))"
    assert of_all(page, ".now time", lines) == 1
    inside = "all => all.every(each => each.getBoundingClientRect().right <= 390)"
    assert of_all(page, "table[aria-label='Recent crashes'] time", inside)


def test_a_server_that_goes_away_is_told_and_found_again_without_a_new_window(page: Any) -> None:
    page.context.set_offline(True)
    page.wait_for_selector("body[data-stale]")
    page.context.set_offline(False)
    page.wait_for_selector("body:not([data-stale])")


def test_every_control_has_a_name(page: Any) -> None:
    for view, ready in VIEWS.items():
        show(page, view, ready)
        nameless = of_all(
            page,
            "button, input, select, textarea, a, [role=button], svg[role]",
            "all => all.filter(e => !(e.ariaLabel || e.textContent.trim() || e.title)).map(e => e.outerHTML)",
        )
        assert nameless == [], view
