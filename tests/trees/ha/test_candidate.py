"""What a candidate does next, on times that are passed in: no threads, no store, no waiting."""

import math

import pytest

from trees import HA
from trees.ha.candidate import MOST_HUNG, Action, Candidate, CandidatePhase
from trees.store.lease_store import LeaseState

HA8 = HA(lease_s=8)
"""Renewed every 1.6 s, stopped at 4 s, killed at 6 s, polled every second, asked again after 1 s."""
FREE = LeaseState(0, "", None, 0.0)
REFUSED = OSError("no route")


def other(left_s: float, token: int = 3, expires_at: float = 1000.0) -> LeaseState:
    return LeaseState(token, "b:1", expires_at, left_s)


def standby(left_s: float = 8.0) -> Candidate:
    candidate = Candidate(HA8, 0.0)
    assert candidate.step(0.0) == [Action.LOOK]
    candidate.seen(0.0, other(left_s), 0.1)
    return candidate


def opening() -> Candidate:
    """Has the lease since 0.2."""
    candidate = Candidate(HA8, 0.0)
    assert candidate.step(0.0) == [Action.LOOK]
    candidate.seen(0.0, FREE, 0.1)
    assert candidate.step(0.2) == [Action.ACQUIRE]
    candidate.granted(0.2, 4, 0.3)
    assert candidate.step(0.3) == [Action.OPEN]
    return candidate


def starting() -> Candidate:
    candidate = opening()
    candidate.opened(0.4)
    assert candidate.step(0.4) == [Action.START]
    return candidate


def leading() -> Candidate:
    candidate = starting()
    candidate.up()
    assert candidate.step(0.5) == []
    assert (candidate.phase, candidate.settled) == (CandidatePhase.LEADING, True)
    return candidate


# -- a standby ---------------------------------------------------------------------------------------------


def test_a_free_lease_is_taken_at_once_and_it_leads_only_when_all_is_up() -> None:
    candidate = starting()

    assert not candidate.settled
    candidate.up()
    assert (candidate.phase, candidate.settled, candidate.token) == (CandidatePhase.LEADING, True, 4)


def test_a_standby_looks_again_every_second_and_when_the_lease_that_it_saw_is_over() -> None:
    candidate = standby(left_s=1.5)

    assert candidate.settled
    assert candidate.wake_at() == pytest.approx(1.1)
    assert candidate.step(1.0) == []
    assert candidate.step(1.1) == [Action.LOOK]
    candidate.seen(1.1, other(0.45), 1.15)
    assert candidate.wake_at() == pytest.approx(1.6)
    assert candidate.step(1.6) == [Action.LOOK]
    candidate.seen(1.6, other(-0.1), 1.61)
    assert candidate.step(1.61) == [Action.ACQUIRE]


def test_it_takes_a_lease_that_was_released_at_the_next_look() -> None:
    candidate = standby()
    assert candidate.step(1.1) == [Action.LOOK]

    candidate.seen(1.1, other(-0.2, expires_at=994.0), 1.2)

    assert candidate.step(1.2) == [Action.ACQUIRE]


def test_a_clock_of_the_store_that_was_set_forward_gives_nothing_away_to_who_has_watched() -> None:
    candidate = standby(left_s=8.0)
    assert candidate.step(1.1) == [Action.LOOK]

    candidate.seen(1.1, other(-3600.0), 1.2)

    assert candidate.step(1.2) == []
    assert candidate.step(2.2) == [Action.LOOK]
    candidate.seen(2.2, other(7.0, expires_at=4608.0), 2.3)
    assert candidate.due == pytest.approx(9.3)


def test_who_was_faster_keeps_it() -> None:
    candidate = standby(left_s=0.0)
    assert candidate.step(0.1) == [Action.ACQUIRE]

    candidate.seen(0.1, other(8.0, token=4, expires_at=1008.0), 0.2)

    assert candidate.phase is CandidatePhase.STANDBY
    assert candidate.step(0.3) == []
    assert candidate.step(1.2) == [Action.LOOK]


def test_a_store_that_does_not_answer_at_the_start_ends_it_with_that_error_after_two_seconds() -> None:
    candidate = Candidate(HA8, 0.0)
    assert candidate.step(0.0) == [Action.LOOK]
    candidate.failed(0.0, REFUSED, 0.5)
    assert candidate.step(0.8) == [Action.LOOK]

    candidate.failed(0.8, REFUSED, 2.0)

    assert (candidate.phase, candidate.cause) == (CandidatePhase.OVER, REFUSED)


def test_a_store_that_another_process_has_alone_ends_it_at_once() -> None:
    candidate = Candidate(HA8, 0.0)
    candidate.step(0.0)

    candidate.failed(0.0, REFUSED, 0.1, final=True)

    assert (candidate.phase, candidate.cause) == (CandidatePhase.OVER, REFUSED)


def test_a_store_that_does_not_answer_later_is_asked_again() -> None:
    candidate = standby()
    assert candidate.step(1.1) == [Action.LOOK]

    candidate.failed(1.1, REFUSED, 1.2)

    assert (candidate.phase, candidate.error) == (CandidatePhase.STANDBY, REFUSED)
    assert candidate.step(2.2) == [Action.LOOK]
    candidate.seen(2.2, other(7.0), 2.3)
    assert candidate.error is None


def test_requests_that_hang_are_not_waited_for_but_few_may_hang_at_a_time() -> None:
    candidate = standby(left_s=100.0)
    now, sent = 0.0, []
    while now < 60.0:
        now += 0.05
        sent += [now for do in candidate.step(now) if do is Action.LOOK]
    assert len(sent) == MOST_HUNG

    candidate.seen(sent[0], other(50.0), now)
    assert candidate.step(now + 1.0) == [Action.LOOK]


def test_a_standby_that_is_to_end_is_over_at_once() -> None:
    candidate = standby()

    candidate.leave(0.5)

    assert (candidate.phase, candidate.cause, candidate.lost) == (CandidatePhase.OVER, None, None)
    assert candidate.step(0.5) == []
    assert candidate.wake_at() == math.inf


def test_one_that_is_to_end_while_it_takes_the_lease_gives_it_back() -> None:
    candidate = standby(left_s=0.0)
    assert candidate.step(0.1) == [Action.ACQUIRE]
    candidate.leave(0.2)
    assert candidate.step(0.2) == []

    candidate.granted(0.1, 4, 0.3)

    assert candidate.step(0.3) == [Action.RELEASE]
    candidate.released(0.3)
    assert candidate.phase is CandidatePhase.OVER


@pytest.mark.parametrize("answer", ["refused", "failed", "lost"])
def test_one_that_is_to_end_while_it_tries_for_the_lease_ends_whatever_the_answer(answer: str) -> None:
    candidate = standby(left_s=0.0)
    candidate.step(0.1)
    candidate.leave(0.2)

    if answer == "refused":
        candidate.seen(0.1, other(8.0, token=4), 0.3)
    elif answer == "failed":
        candidate.failed(0.1, REFUSED, 0.3)
    else:
        assert candidate.step(2.2) == []

    assert (candidate.phase, candidate.cause) == (CandidatePhase.OVER, None)


# -- a leader ----------------------------------------------------------------------------------------------


def test_a_leader_renews_and_everything_counts_from_before_the_request() -> None:
    candidate = leading()
    assert candidate.wake_at() == pytest.approx(1.8)

    assert candidate.step(1.8) == [Action.RENEW]
    candidate.granted(1.8, 4, 2.7)

    assert candidate.sent == 1.8
    assert candidate.wake_at() == pytest.approx(3.4)


def test_it_also_renews_while_it_reads_the_journals_and_while_it_starts() -> None:
    candidate = opening()
    assert candidate.step(1.8) == [Action.RENEW]
    candidate.granted(1.8, 4, 1.9)
    candidate.opened(2.0)
    assert candidate.step(2.0) == [Action.START]

    assert candidate.step(3.5) == [Action.RENEW]


def test_a_renewal_that_fails_is_sent_again_soon() -> None:
    candidate = leading()
    candidate.step(1.8)
    candidate.failed(1.8, REFUSED, 1.9)

    assert candidate.step(2.0) == []
    assert candidate.step(2.1) == [Action.RENEW]
    candidate.granted(2.1, 4, 2.2)
    assert (candidate.phase, candidate.sent, candidate.error) == (CandidatePhase.LEADING, 2.1, None)


def unreachable(candidate: Candidate, until: float, now: float = 0.5) -> list[tuple[float, Action]]:
    """What it does while every request fails after a moment."""
    done: list[tuple[float, Action]] = []
    while (now := round(now + 0.05, 9)) <= until:
        for do in candidate.step(now):
            done.append((now, do))
            if do is Action.RENEW:
                candidate.failed(now, REFUSED, now + 0.01)
    return done


def test_a_leader_that_cannot_renew_is_stopped_at_half_of_the_lease_and_killed_at_three_quarters() -> None:
    candidate = leading()

    done = [(now, do) for now, do in unreachable(candidate, 8.2) if do is not Action.RENEW]

    assert done == [(pytest.approx(4.2, abs=0.06), Action.STOP), (pytest.approx(6.2, abs=0.06), Action.KILL)]
    assert candidate.lost is not None
    assert "could not be renewed for 4" in candidate.lost
    assert "no route" in candidate.lost


def test_one_that_is_down_before_it_has_to_be_killed_gives_the_lease_back_if_it_can() -> None:
    candidate = leading()
    unreachable(candidate, 4.5)
    assert candidate.phase is CandidatePhase.STOPPING

    candidate.down(4.6, clean=True)
    assert candidate.step(4.6) == [Action.RELEASE]
    candidate.failed(4.6, REFUSED, 4.7)

    assert candidate.phase is CandidatePhase.OVER
    assert candidate.lost is not None


def test_a_store_that_comes_back_ends_no_stop_that_has_begun_but_gives_it_time() -> None:
    candidate = leading()
    unreachable(candidate, 4.5)
    now = 5.0
    while Action.RENEW not in candidate.step(now):
        now += 0.05

    candidate.granted(now, 4, now + 0.01)

    assert candidate.step(now + 5.9) == [Action.RENEW]
    assert candidate.phase is CandidatePhase.STOPPING
    assert candidate.lost is not None


def test_one_that_was_frozen_is_killed_at_its_first_look() -> None:
    candidate = leading()

    assert candidate.step(100.0) == [Action.KILL]
    assert (candidate.phase, candidate.lost is not None) == (CandidatePhase.KILLED, True)


def test_an_answer_from_before_it_was_frozen_changes_nothing_once_it_was_killed() -> None:
    candidate = leading()
    assert candidate.step(1.8) == [Action.RENEW]
    assert candidate.step(6.5) == [Action.KILL]

    candidate.granted(1.8, 4, 6.6)

    assert candidate.phase is CandidatePhase.KILLED
    assert candidate.step(6.7) == []


def test_an_answer_that_comes_late_still_counts_from_before_its_request() -> None:
    candidate = leading()
    assert candidate.step(1.8) == [Action.RENEW]
    assert candidate.step(2.8) == []
    assert candidate.step(3.1) == [Action.RENEW]

    candidate.granted(1.8, 4, 3.2)

    assert candidate.sent == 1.8
    assert candidate.phase is CandidatePhase.LEADING


@pytest.mark.parametrize("how", ["another token", "fenced"])
def test_a_leader_that_hears_of_another_one_is_killed(how: str) -> None:
    candidate = leading()
    assert candidate.step(1.8) == [Action.RENEW]

    if how == "fenced":
        candidate.lease_lost("a write was refused")
    else:
        candidate.seen(1.8, other(8.0, token=5), 1.9)

    assert candidate.step(2.0) == [Action.KILL]
    candidate.down(2.1, clean=True)
    assert candidate.phase is CandidatePhase.OVER
    assert candidate.step(2.1) == []


def test_a_lease_that_has_vanished_from_the_store_is_lost() -> None:
    candidate = leading()
    assert candidate.step(1.8) == [Action.RENEW]

    candidate.seen(1.8, FREE, 1.9)

    assert candidate.step(2.0) == [Action.KILL]


def test_a_clean_stop_renews_until_all_is_down_and_then_gives_the_lease_back() -> None:
    candidate = leading()
    candidate.leave(1.0)
    assert candidate.step(1.0) == [Action.STOP]
    assert candidate.step(1.8) == [Action.RENEW]
    candidate.granted(1.8, 4, 1.9)

    candidate.down(2.0, clean=True)

    assert candidate.step(2.0) == [Action.RELEASE]
    candidate.released(2.0)
    assert (candidate.phase, candidate.lost, candidate.cause) == (CandidatePhase.OVER, None, None)


def test_a_lease_is_given_back_only_after_the_renewal_that_was_under_way() -> None:
    candidate = leading()
    candidate.leave(1.0)
    candidate.step(1.0)
    assert candidate.step(1.8) == [Action.RENEW]
    candidate.down(1.9, clean=True)
    assert candidate.step(1.9) == []

    candidate.failed(1.8, REFUSED, 2.0)

    assert candidate.step(2.0) == [Action.RELEASE]


@pytest.mark.parametrize("lease_s", [2.0, 8.0])
def test_a_store_that_answers_nothing_any_more_holds_up_no_end(lease_s: float) -> None:
    candidate = Candidate(HA(lease_s=lease_s), 0.0)
    candidate.step(0.0)
    candidate.seen(0.0, FREE, 0.0)
    candidate.step(0.0)
    candidate.granted(0.0, 4, 0.0)
    candidate.opened(0.0)
    candidate.up()
    now = 0.0
    while candidate.phase is not CandidatePhase.STOPPING:
        now += 0.05
        candidate.step(now)  # no answer to any of them

    candidate.down(now, clean=True)
    while candidate.phase is not CandidatePhase.OVER and now < lease_s:
        now += 0.05
        candidate.step(now)

    assert candidate.phase is CandidatePhase.OVER


def test_where_a_thread_was_left_to_itself_the_lease_is_not_given_back() -> None:
    candidate = leading()
    candidate.leave(1.0)
    candidate.step(1.0)

    candidate.down(2.0, clean=False)

    assert candidate.phase is CandidatePhase.OVER
    assert candidate.step(2.0) == []


def test_a_tree_that_ends_by_itself_gives_the_lease_back() -> None:
    candidate = leading()

    candidate.down(1.0, clean=True)

    assert candidate.step(1.0) == [Action.RELEASE]


# -- a takeover that fails ---------------------------------------------------------------------------------


def test_journals_that_cannot_be_read_give_the_lease_back() -> None:
    candidate = opening()

    candidate.broke(REFUSED, 0.4)

    assert candidate.step(0.4) == [Action.RELEASE]
    candidate.released(0.4)
    assert (candidate.phase, candidate.cause) == (CandidatePhase.OVER, REFUSED)


def test_a_tree_that_does_not_start_gives_the_lease_back_when_it_is_down() -> None:
    candidate = starting()
    candidate.broke(REFUSED, 0.5)
    assert candidate.step(0.5) == []

    candidate.down(0.6, clean=True)

    assert candidate.step(0.6) == [Action.RELEASE]
    candidate.released(0.6)
    assert (candidate.phase, candidate.cause) == (CandidatePhase.OVER, REFUSED)


def taking_over() -> Candidate:
    """Was a standby, and has the lease since 2.3: its journals are being read."""
    candidate = standby()
    assert candidate.step(1.1) == [Action.LOOK]
    candidate.seen(1.1, other(-0.2, expires_at=994.0), 1.2)
    assert candidate.step(2.3) == [Action.ACQUIRE]
    candidate.granted(2.3, 4, 2.4)
    assert candidate.step(2.4) == [Action.OPEN]
    return candidate


def renewals_fail_until(candidate: Candidate, now: float, until: float) -> None:
    """Step like the keeper does, with a store that refuses each renewal."""
    woken = 0
    while now < until:
        now, woken = max(now, candidate.wake_at()), woken + 1
        for action in candidate.step(now):
            assert action is Action.RENEW
            candidate.failed(now, REFUSED, now)
    assert woken < 100, "it wakes to send a renewal, and for nothing else"


@pytest.mark.parametrize("first", ["the journals are read", "the renewal succeeds"])
def test_a_standby_that_reads_the_journals_outlasts_a_store_that_is_slow_and_starts_when_the_lease_is_fresh(
    first: str,
) -> None:
    candidate = taking_over()
    renewals_fail_until(candidate, 2.4, 19.0)
    assert (candidate.phase, candidate.lost) == (CandidatePhase.OPENING, None)

    if first == "the journals are read":
        candidate.opened(19.0)
        assert Action.START not in candidate.step(19.0), "not without the lease"
    now = max(19.0, candidate.wake_at())
    candidate.step(now)
    candidate.granted(now, 4, now + 0.1)
    if first == "the renewal succeeds":
        assert Action.START not in candidate.step(now + 0.1), "not without the journals"
        candidate.opened(now + 0.2)

    assert candidate.step(now + 0.2) == [Action.START]
    assert candidate.wake_at() > now + 0.2
    candidate.step(now + 0.2 + HA8.stop_s)
    assert candidate.phase is CandidatePhase.STOPPING, "what runs, or starts, is ended in time as ever"


def test_a_standby_that_reads_the_journals_ends_when_another_one_has_the_lease_meanwhile() -> None:
    candidate = taking_over()
    renewals_fail_until(candidate, 2.4, 19.0)
    now = candidate.wake_at()
    assert candidate.step(now) == [Action.RENEW]

    candidate.seen(now, other(5.0, token=5), now + 0.1)

    assert (candidate.phase, candidate.lost) == (CandidatePhase.OVER, "b:1 has taken over with token 5")
    candidate.opened(now + 0.2)
    assert candidate.step(now + 0.2) == []


def test_a_first_start_whose_journals_take_too_long_to_read_without_a_renewal_is_given_up() -> None:
    candidate = opening()

    assert candidate.step(4.3) == []

    assert candidate.phase is CandidatePhase.OVER
    assert candidate.lost is not None
    candidate.opened(4.4)
    assert candidate.step(4.4) == []


@pytest.mark.parametrize("phase", [CandidatePhase.OPENING, CandidatePhase.STARTING])
def test_a_takeover_may_be_told_to_end(phase: CandidatePhase) -> None:
    candidate = opening() if phase is CandidatePhase.OPENING else starting()

    candidate.leave(0.5)

    assert candidate.step(0.5) == [Action.RELEASE if phase is CandidatePhase.OPENING else Action.STOP]
