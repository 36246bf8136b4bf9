"""Each rule of the contract of tasks has a test that would fail without it: this table names one for each."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "actors/tasks/CONTRACT.md"
TESTED = {
    "1.1": "tasks/orchestration/test_ids_and_waits::an_id_that_cannot_be_one_is_refused",
    "1.2": "tasks/orchestration/test_task_events_of_teams::"
    "what_happens_inside_teams_comes_with_the_events_in_order_up_to_the_end_of_the_task",
    "1.3": "tasks/results/test_context::idempotency_keys_have_no_spaces_and_no_two_subtasks_share_one",
    "1.4": "tasks/results/test_review::a_revision_is_a_new_act_with_a_new_idempotency_key_and_fresh_attempts",
    "1.5": "tasks/orchestration/test_task_ids::questions_of_a_task_are_its_own_whatever_others_are_called",
    "2.1": "trees/host/test_start_store::a_process_that_is_killed_loses_nothing_that_was_taken",
    "2.2": "trees/host/test_known_ids::the_same_id_with_another_goal_or_other_inputs_is_a_warning",
    "2.3": "tasks/results/test_size_of_values::an_input_that_is_too_large_is_refused",
    "2.4": "tasks/orchestration/test_submitting::workers_submit_tasks_to_other_teams_and_wait_for_them",
    "2.5": "tasks/orchestration/test_metadata::every_event_of_a_task_carries_its_metadata",
    "2.6": "tasks/execution/test_caller_variables::"
    "contextvars_of_the_caller_reach_the_attempts_of_a_task_that_is_submitted_in_this_process",
    "3.1": "tasks/orchestration/test_executable_workers::whatever_can_execute_gives_the_same_result",
    "3.2": "tasks/execution/test_work_is_text::code_that_takes_a_model_gets_it_made_of_the_inputs",
    "3.3": "tasks/execution/test_work_is_text::work_is_a_text_with_attributes_and_its_context_a_mapping",
    "3.4": "tasks/results/test_context::an_attempt_sees_the_results_of_its_own_dependencies_and_of_nothing_else",
    "3.5": "tasks/orchestration/test_dumps_of_teams::a_worker_knows_its_path_and_the_task_that_its_events_have",
    "3.6": "tasks/results/test_prompts::"
    "a_worker_is_told_the_goal_and_what_is_important_whole_and_the_rest_cut_to_what_is_left",
    "3.7": "tasks/recovery/test_failures::a_result_that_does_not_fit_is_told_to_the_next_attempt",
    "3.8": "tasks/scheduling/test_breakers::an_open_breaker_takes_its_worker_out_of_selection_and_out_of_the_catalogue",
    "3.9": "tasks/recovery/test_unknown_effects::neither_retry_nor_failover_does_it_a_second_time",
    "4.1": "tasks/orchestration/test_executable_workers::a_signal_means_the_same_raised_and_returned",
    "4.2": "tasks/recovery/test_crashes::restarts_of_a_worker_and_retries_of_an_attempt_have_budgets_of_their_own",
    "4.3": "tasks/results/test_result_values::any_other_result_is_a_failed_attempt_that_names_its_type_only",
    "4.4": "tasks/scheduling/test_breakers::what_counts",
    "4.5": "tasks/recovery/test_unknown_effects::nor_do_the_ladders_of_the_team_or_the_attempt_that_needs_it",
    "5.1": "tasks/planning/test_plans_as_people_write_them::names_of_workers_are_a_plan_and_each_of_them_gets_the_goal",
    "5.2": "tasks/planning/test_planning::"
    "a_planner_runs_neither_in_the_supervisor_nor_on_the_thread_of_the_orchestrator",
    "5.3": "tasks/planning/test_plan_checks_of_a_tree::all_problems_of_a_plan_are_told_at_once_and_fed_back_each_time",
    "5.4": "tasks/planning/test_goals_in_words::doubts_of_the_planner_stand_in_the_report",
    "5.5": "tasks/recovery/test_replan::what_a_failed_subtask_may_have_done_is_undone_before_another_way_is_taken",
    "6.1": "tasks/scheduling/test_dispatch::"
    "a_subtask_starts_when_its_own_dependencies_are_done_and_waits_for_no_slow_sibling",
    "6.2": "tasks/scheduling/test_dispatch::never_more_attempts_than_max_parallel_run_at_once_over_all_tasks",
    "6.3": "tasks/scheduling/test_ageing::ready_subtasks_rank_by_priority_then_deadline_then_the_age_of_their_task",
    "6.4": "tasks/scheduling/test_ageing::set_priority_survives_a_resume",
    "6.5": "tasks/scheduling/test_selection_of_workers::the_candidate_with_the_fewest_attempts_is_given_the_next_one",
    "6.6": "tasks/scheduling/test_preemption::"
    "an_urgent_subtask_takes_the_place_of_one_that_runs_which_starts_again_later",
    "6.7": "tasks/scheduling/test_step_slots::a_burst_of_tasks_has_so_many_steps_at_once_and_not_one_more",
    "6.8": "tasks/orchestration/test_delegation::whoever_waits_gives_up_its_slot",
    "7.1": "tasks/execution/test_timeouts::time_in_the_queue_does_not_count_and_is_told_apart",
    "7.2": "tasks/execution/test_deadlines::a_deadline_ends_what_was_asked_for_and_what_is_queued_too",
    "7.3": "tasks/execution/test_timeouts::more_than_max_abandoned_threads_park_a_worker",
    "7.4": "tasks/journal/test_resume_time::what_may_run_so_long_is_not_charged_for_the_time_between_two_processes",
    "8.1": "tasks/recovery/test_ladders_of_tasks::"
    "the_ladder_is_that_of_the_subtask_or_of_the_task_or_of_the_worker_or_of_the_team",
    "8.2": "tasks/recovery/test_failures::"
    "the_next_worker_that_can_do_it_takes_over_then_the_backup_and_the_attempts_count_on",
    "8.3": "tasks/recovery/test_failures::"
    "what_a_worker_rejects_goes_to_the_next_candidate_at_once_and_counts_as_no_attempt",
    "8.4": "tasks/recovery/test_failures::dependants_of_what_is_required_are_skipped_and_independent_branches_finish",
    "8.5": "tasks/recovery/test_ladders_of_teams::default_ladders_do_not_multiply",
    "8.6": "tasks/recovery/test_answers::escalated_without_any_escalate_rung_says_which_rung_is_missing",
    "9.1": "tasks/scheduling/test_breakers_count_subtasks::failures_that_a_retry_mends_never_open_it",
    "9.2": "tasks/scheduling/test_breakers_count_subtasks::"
    "while_it_is_half_open_the_first_attempt_of_the_probe_decides",
    "9.3": "tasks/scheduling/test_breakers_count_subtasks::what_waits_for_an_open_breaker_loses_no_attempt",
    "9.4": "tasks/orchestration/test_reports_of_teams::a_team_that_fails_because_of_a_member_counts_for_its_breaker",
    "10.1": "tasks/recovery/test_escalations::a_question_survives_its_orchestrator_and_is_answered_to_the_next_one",
    "10.2": "trees/host/test_questions::an_equal_second_answer_is_no_error_and_another_one_is",
    "10.3": "tasks/recovery/test_escalations::edit_is_its_result_and_nothing_runs",
    "10.4": "tasks/recovery/test_escalations::no_answer_in_time_is_the_next_rungs_turn_and_no_attempt",
    "10.5": "tasks/recovery/test_question_state::the_worker_that_asked_goes_on_and_no_other_sees_its_state",
    "10.6": "tasks/recovery/test_answers::escalated_twice_the_same_way_after_an_approval_is_an_error_that_says_so",
    "10.7": "tasks/scheduling/test_waiting::a_task_whose_team_waits_for_a_person_waits",
    "11.1": "tasks/orchestration/test_asks::an_ask_gives_the_result_and_the_one_asked_sees_only_what_it_was_told",
    "11.2": "tasks/journal/test_resume_asks::"
    "what_is_asked_for_in_other_words_is_new_and_the_other_one_is_not_begun_again",
    "11.3": "tasks/orchestration/test_recursion::a_worker_that_asks_one_who_asks_it_is_refused",
    "11.4": "tasks/orchestration/test_delegation::a_worker_that_waits_in_an_ask_does_not_hold_up_the_stop_of_its_tree",
    "12.1": "tasks/execution/test_steps::a_step_on_a_thread_is_recorded_before_it_returns",
    "12.2": "tasks/execution/test_steps::"
    "a_step_whose_function_raises_records_nothing_and_is_the_same_step_when_it_is_called_again",
    "12.3": "tasks/execution/test_steps::a_thread_that_was_given_up_makes_and_records_no_further_step",
    "13.1": "tasks/results/test_review::only_what_failed_runs_again_and_then_its_dependants_with_the_new_result",
    "13.2": "tasks/results/test_verdicts::what_makes_no_sense_is_told_to_the_reviewer_once",
    "13.3": "tasks/results/test_review_each::every_result_is_reviewed_once_and_before_its_dependants_start",
    "13.4": "tasks/results/test_report::results_become_one_output",
    "13.5": "tasks/orchestration/test_step_retry::a_step_that_takes_too_long_is_called_again",
    "14.1": "tasks/recovery/test_compensation::what_was_done_is_undone_once_the_newest_first",
    "14.2": "tasks/recovery/test_compensation::what_may_have_been_done_is_undone_without_a_result",
    "14.3": "tasks/recovery/test_undo_failures::"
    "an_undo_that_cannot_be_done_asks_a_person_and_is_in_the_report_when_nobody_answers",
    "15.1": "tasks/orchestration/test_cancel::"
    "a_cancel_returns_before_it_is_recorded_and_what_it_returns_is_done_when_it_is",
    "15.2": "tasks/recovery/test_deadline_and_budget::"
    "a_task_over_its_budget_ends_with_what_is_done_and_lets_finish_what_runs",
    "15.3": "tasks/recovery/test_retry::what_is_done_is_kept_and_what_failed_begins_with_a_new_key",
    "15.4": "tasks/recovery/test_poison::a_reviewer_that_is_odd_in_any_way_loses_nothing",
    "16.1": "tasks/orchestration/test_teams::"
    "a_team_sees_what_it_is_to_do_its_inputs_and_the_results_that_its_part_depends_on",
    "16.2": "tasks/orchestration/test_teams::"
    "another_attempt_of_a_team_goes_on_with_the_same_task_of_it_and_the_same_keys",
    "17.1": "survival/test_crashes::an_orchestrator_that_crashed_goes_on_with_the_attempts_that_run",
    "17.2": "tasks/recovery/test_losses::after_so_many_losses_it_has_failed_and_its_ladder_goes_on",
    "17.3": "tasks/journal/test_resume_changed::"
    "a_subtask_whose_worker_is_gone_is_done_by_another_one_that_can_with_the_same_key",
    "17.4": "survival/test_processes::a_leader_that_was_frozen_is_replaced_and_does_nothing_more",
    "17.5": "trees/host/test_start_store::"
    "what_is_unfinished_goes_on_in_the_next_process_and_what_was_done_is_not_done_again",
    "18.1": "trees/host/test_events_after_a_number::events_after_one_that_was_seen_begin_with_the_next",
    "18.2": "tasks/results/test_usage::what_is_used_up_counts_however_the_attempt_ends",
    "18.3": "tasks/orchestration/test_streams::"
    "what_an_attempt_streams_comes_in_order_with_the_other_events_and_is_not_kept",
    "18.4": "tasks/orchestration/test_task_handles::a_failed_task_raises_the_same_to_everybody_with_its_report",
    "19.1": "project/test_event_kinds",
    "19.2": "project/test_event_kinds",
    "19.3": "project/test_event_dicts",
}
"""By section and number of a rule: a file of tests below ``tests``, and the test in it."""


def test_each_rule_of_the_contract_names_a_test_that_there_is() -> None:
    section, rules = "", list[str]()
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if heading := re.match(r"## (\d+) ", line):
            section = heading[1]
        elif rule := re.match(r"(\d+)\. ", line):
            rules.append(f"{section}.{rule[1]}")
    lost = [named for named in TESTED.values() if not _is_there(named)]

    assert rules == list(TESTED)
    assert not lost


def _is_there(named: str) -> bool:
    file, _, test = named.partition("::")
    path = ROOT / "tests" / f"{file}.py"
    return path.is_file() and f"def test_{test}" in path.read_text(encoding="utf-8")
