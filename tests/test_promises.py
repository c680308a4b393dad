"""README's promises are each kept by tests: the sentence stands there, and the tests that keep it exist.

Every sentence of "What it promises" has its tests here; a new one fails until it has. Of the other sections
the sentences that promise something have theirs.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from repository import PAGES

ROOT = Path(__file__).parents[1]
SERVERS = "capabilities/mcp/test_servers.py"
UNASKED = "e2e/test_unasked_files.py"
POLICY = "permissions/test_policy.py"

PROMISED: dict[str, tuple[str, ...]] = {
    "No settled turn is ever lost.": (
        "e2e/test_daemon.py::test_after_kill_9_every_settled_turn_loads_again",
        "runtime/store/test_crash.py::test_damage_anywhere_is_survived",
    ),
    "The last event of a turn is sent after its content is on disk, and after `kill -9` at any byte the next "
    "load has every settled turn.": (
        "runtime/conductor/test_agent.py::test_a_run_is_stored_before_its_end_is_published",
        "conductor/test_session.py::test_what_settled_is_on_disk_and_loads_again",
        "runtime/store/test_crash.py::test_a_file_cut_at_every_byte_loads_and_goes_on",
        "runtime/store/test_crash.py::test_kill_9_leaves_every_turn_that_was_acknowledged",
    ),
    "No prompt stays without an end.": (
        "conductor/test_session.py::test_a_turn_ends_once_whatever_step_of_it_raises",
        "conductor/test_session.py::test_a_mistake_of_ours_leaves_nobody_waiting_for_a_compaction",
        "soak/test_soak.py::test_nothing_grows_and_nothing_hangs_in_hours_of_use",
    ),
    "It is acknowledged, reported event by event, and ends with exactly one last event.": (
        "conductor/test_session.py::test_a_turn_tells_everything_in_order_and_settles_last",
    ),
    "No compaction makes a conversation longer.": (
        "conductor/test_engines.py::test_the_next_request_is_strictly_smaller_and_says_why",
        "conductor/test_session_ops.py::test_restored_files_never_make_the_result_larger",
    ),
    "It returns strictly fewer tokens or changes nothing, never separates a tool result from its call, and "
    "never drops the newest prompt.": (
        "conductor/test_engines_properties.py::test_what_is_sent_is_whole_and_holds_the_newest_prompt",
        "conductor/test_engines.py::test_a_long_run_is_kept_within_the_window_by_the_sessions_own_engine",
    ),
    "Nothing is deleted by a compaction.": (
        "conductor/test_engines.py::test_of_two_compactions_the_newer_is_undone_first",
        "conductor/test_engines.py::test_a_reloaded_session_sends_what_it_would_have_sent",
    ),
    "The old branch stays stored, and `undo` moves the head back to it.": (
        "runtime/store/test_dag.py::test_a_branch_shares_its_parent_and_the_old_one_stays",
        "conductor/compaction/test_compacting.py::test_undo_brings_back_the_conversation_and_what_came_since",
    ),
    "No file is edited from memory.": (
        "capabilities/test_edit.py::test_not_read_yet",
        "capabilities/test_edit.py::test_changed_on_disk_since_read",
        "e2e/test_write_guard.py::test_after_a_load_the_guard_knows_the_files_in_view",
    ),
    "A file that changed since the model read it is reported as stale and must be read again before an edit; "
    "restored files come back with their present content, hash and source, the most used first.": (
        "e2e/test_editors_views.py::test_a_file_that_changed_is_marked_until_it_is_read_again",
        "capabilities/test_edit.py::test_changed_on_disk_since_read",
        "conductor/compaction/test_compacting.py::test_files_come_back_as_they_are_now_buffer_first",
        "conductor/compaction/test_file_use.py::test_the_file_that_is_used_most_and_last_comes_first",
    ),
    "No folder of a stranger starts anything.": (
        "e2e/test_extensions.py::test_nothing_of_a_strangers_folder_runs",
    ),
    "Hooks and tool servers of a folder that is not `trusted` do not run, and its commands ask before their "
    "first use.": (
        "extensions/test_finding.py::test_a_folder_that_is_not_trusted_has_none",
        "e2e/test_extensions.py::test_one_of_a_folder_asks_once_for_each_content",
    ),
    "No tool acts unasked: edits, patches, commands, pages and every path outside the session's folders ask "
    "first, and no answer means no.": (
        "capabilities/test_tools.py::test_a_tool_that_may_change_something_asks_first",
        "capabilities/test_listing.py::test_outside_is_asked_for",
        "capabilities/test_grep.py::test_outside_is_asked_for",
        "conductor/test_permissions.py::test_without_a_controller_the_question_is_rejected",
        "conductor/test_permissions.py::test_a_question_without_an_answer_expires_and_listeners_are_notified",
    ),
    "Commands that only read inside these folders are no action.": (
        "permissions/test_policy.py::test_reading_inside_is_free",
        "permissions/test_hostile.py::test_a_hostile_line_is_never_covered",
    ),
    "No prompt, file content or key is in a log above DEBUG, and nothing but the protocol is on standard "
    "output.": (
        "e2e/test_daemon.py::test_no_prompt_and_no_file_content_is_in_a_log_above_debug",
        "models/test_secrets.py::test_a_key_that_is_refused_and_repeated_is_shown_nowhere",
        "transport/test_stdio.py::test_only_the_protocol_reaches_the_client",
        "acp/test_process.py::test_nothing_but_the_protocol_is_on_standard_output",
    ),
    "No process outlives the daemon, and the daemon does not outlive its client: end of input, a dead parent "
    "and SIGTERM end it, and the processes of its tools end with it.": (
        "capabilities/test_processes.py::test_a_killed_daemon_takes_its_children_along",
        "capabilities/mcp/test_e2e.py::test_servers_end_with_a_daemon_that_is_killed",
        "server/test_serve.py::test_the_end_of_the_process_is_announced_and_open_requests_are_answered",
        "acp/test_process.py::test_the_end_of_input_in_the_middle_of_a_turn_ends_it",
        "e2e/test_killed_parents.py::test_no_killed_parent_leaves_a_daemon",
        "acp/test_process.py::test_sigterm_settles_the_turn_stores_it_and_exits_0",
    ),
    "No client costs another one anything by flooding a shared daemon, not reading, or dying.": (
        "attach/test_floods.py::test_a_flood_leaves_others_their_turn_and_memory_its_bounds",
        "attach/test_floods.py::test_a_client_that_never_reads_costs_a_session_nothing_and_gets_its_gap",
        "attach/test_shared_daemon.py::test_the_death_of_a_shim_is_its_own",
        "protocol/test_codec.py::test_a_message_with_countless_wrong_items_is_refused_early",
    ),
    "A client that is too slow loses events, and is told which.": (
        "transport/test_feed.py::test_events_that_a_slow_client_lost_are_a_gap",
    ),
    "No turn costs more because the conversation is long.": (
        "benchmarks/test_session.py::test_the_last_prompts_of_a_long_session_cost_what_the_first_did",
        "benchmarks/test_runtime.py::test_the_thousandth_prompt_costs_what_the_tenth_did",
    ),
    "The cost of a turn follows its new part.": (
        "conductor/test_indexes.py::test_an_index_that_grows_costs_only_what_is_new",
        "test_conversation.py::test_an_advance_costs_only_the_new_entries",
    ),
}
"""The sentences of "What it promises", and the tests that keep them."""

SAID: dict[str, tuple[str, ...]] = {
    "unsaved buffers first, the disk second": (
        "e2e/test_editors.py::test_the_model_reads_unsaved_text",
        "acp/test_files.py::test_unsaved_text_is_read_before_the_disk",
    ),
    "the next daemon continues the conversation": (
        "e2e/test_daemon.py::test_the_demonstration_keeps_its_promises_on_this_repository",
    ),
    "Esc stops an answer": (
        "e2e/test_chat.py::test_what_is_typed_is_completed_queued_and_kept",
        "commands/test_process.py::test_ctrl_c_stops_the_turn_then_leaves_and_the_session_goes_on",
    ),
    "one question, the answer on stdout": (
        "commands/test_process.py::test_run_answers_on_stdout_and_writes_notes_to_stderr",
    ),
    "the state of this machine, and the next steps": (
        "e2e/test_daemon.py::test_doctor_reports_its_findings",
    ),
    "of a provider whose key is set, else of a model server on this machine": (
        "e2e/test_models.py::test_a_key_alone_is_enough",
        "e2e/test_models.py::test_a_local_server_alone_is_enough",
        "e2e/test_models.py::test_without_key_and_server_the_built_in_model_answers",
    ),
    "answers with the lines that it found, each as `path:line`": (
        "llmgateway/test_offline_model.py::test_lines_are_cited_best_first_and_bounded",
    ),
    "or in the folder that `INDUSAGI_HOME` names": ("_internal/test_env.py::test_indusagi_home",),
    "`--help` of each command has examples and exit codes": (
        "commands/test_arguments.py::test_the_help_of_each_command_has_its_exit_codes_and_fits_a_terminal",
        "commands/test_arguments.py::test_every_example_is_a_command_line_that_is_understood",
    ),
    "makes one of them a session that any model and engine can go on with": (
        "importing/test_finding.py::test_one_session_of_each_agent_is_found",
        "service/test_importing.py::test_an_imported_session_goes_on_with_every_engine",
    ),
    "It reports everything that it repaired or left out": (
        "commands/test_import.py::test_the_report_says_what_came_and_what_was_left_out",
        "importing/test_recordings.py::test_every_recorded_result_is_imported_or_counted",
    ),
    "writes the form of these two agents": (
        "service/test_foreign_export.py::test_an_exported_conversation_reads_back_as_it_was",
    ),
    "This is a whole client": ("e2e/test_daemon.py::test_the_example_in_the_readme_runs_as_printed",),
    "joins the one daemon of the state directory, and starts it when there is none": (
        "attach/test_shared_daemon.py::test_eight_shims_at_once_start_one_daemon",
    ),
    "Sessions stay loaded when an editor leaves": (
        "attach/test_shared_daemon.py::test_a_daemon_outlives_its_starter_and_its_sessions_stay_loaded",
    ),
    "an agent panel can follow the same session": (
        "attach/test_editor_and_panel.py::test_an_editor_and_its_panel_share_one_live_session",
    ),
    "The first byte of each connection shows which protocol it speaks": (
        "attach/test_shared_daemon.py::test_both_faces_are_served_by_one_daemon",
        "acp/test_process.py::test_the_first_byte_decides_the_protocol_and_the_other_is_not_loaded",
    ),
    "the socket takes clients directly, too": (
        "attach/test_shared_daemon.py::test_a_client_without_a_shim_comes_by_the_socket",
    ),
    "in a folder that only its user can enter, and refuses other users": (
        "attach/test_paths.py::test_created_folders_are_for_their_user_alone",
        "attach/test_unix.py::test_another_user_is_let_go_at_once_and_named",
    ),
    "unless a session is at work": ("attach/test_broker.py::test_work_keeps_the_daemon_without_any_client",),
    "the longest value counts": (
        "attach/test_shared_daemon.py::test_the_longest_idle_time_that_anybody_wants_counts",
    ),
    "It has the environment of the process that started it, and logs to `run/daemon.log`": (
        "attach/test_shared_daemon.py::test_a_shared_daemon_has_the_environment_of_its_starter",
    ),
    "A client that asks for another `lifetime` is refused, with the remedy in the error": (
        "attach/test_shared_daemon.py::test_a_client_that_wants_another_lifetime_is_refused",
    ),
    "`sidecar doctor` shows whether one runs": (
        "attach/test_shared_daemon.py::test_doctor_reports_the_shared_daemon",
    ),
    "a connection begins with the line `Authorization: Bearer TOKEN`": (
        "attach/test_shared_daemon.py::test_a_port_is_for_those_with_the_token",
    ),
    "chooses another model from the next prompt on, of any provider": (
        "conductor/test_options.py::test_a_model_chosen_during_a_turn_answers_the_next_one",
        "models/test_switching.py::test_a_conversation_wanders_from_provider_to_provider",
    ),
    "come from the environment, else from `auth.json`": (
        "llmgateway/test_credentials.py::test_the_environment_goes_first",
        "llmgateway/test_credentials.py::test_a_file_that_others_can_read_is_not_used",
        "llmgateway/test_credentials.py::test_the_systems_keyring_is_searched_under_our_name",
    ),
    "They are in no other file, and in no log, event, error or transcript": (
        "models/test_secrets.py::test_a_key_that_is_refused_and_repeated_is_shown_nowhere",
        "llmgateway/providers/test_wire_failures.py::test_no_key_gets_into_an_error",
    ),
    "Until the folder is `trusted`, its file may choose among models but not say where they are": (
        "e2e/test_models.py::test_a_folder_that_is_not_trusted_gets_neither_key_nor_prompt",
        "llmgateway/test_config.py::test_a_folder_may_choose_a_model_and_nothing_that_leads_elsewhere",
    ),
    "A mistake costs its own part alone: one hook, one rule, one setting. The first answer and `sidecar "
    "doctor` say why": (
        "llmgateway/test_config.py::test_a_mistake_costs_its_own_part_alone",
        "llmgateway/test_config.py::test_a_file_that_is_no_toml_where_it_matters_is_left_out_and_reported",
        "e2e/test_daemon.py::test_the_first_answer_says_why_a_settings_file_is_ignored",
    ),
    "Such a command has a `/tmp` of its own, reaches no socket of a service, and can only read repositories "
    "(`.git`), settings, rules and start-up files": (
        "capabilities/test_sandbox.py::test_a_command_in_the_sandbox_reaches_no_socket_of_a_service",
        "capabilities/test_sandbox.py::test_a_command_in_the_sandbox",
        "capabilities/test_sandbox.py::test_a_command_in_the_sandbox_has_no_network",
    ),
    "one that it makes is moved aside at its end, as `.git.from-sandbox`": (
        "capabilities/test_sandbox.py::test_a_protected_file_that_a_command_makes_is_moved_aside",
    ),
    "Its permission question says that it is in the sandbox": (
        "capabilities/test_sandbox.py::test_the_question_says_so_and_a_terminal_of_the_client_runs_the_same",
    ),
    "no command runs, and `doctor` says why": (
        "e2e/test_sandbox.py::test_no_command_runs_where_there_is_no_sandbox",
        "commands/test_doctor.py::test_the_sandbox_is_shown",
    ),
    "The daemon asks them for the context length of the model": (
        "llmgateway/test_registry.py::test_the_window_is_fetched_from_a_local_server",
    ),
    "Ollama is given the length with each call": (
        "llmgateway/providers/test_windows.py::test_the_window_that_a_call_asks_ollama_for",
    ),
    "If it fails, the session's model is asked, and then there is no summary": (
        "models/test_summarizing.py::test_the_sessions_own_model_condenses_where_it_fails",
        "models/test_summarizing.py::test_local_rules_condense_where_both_fail",
    ),
    "A text that is too long for it is given to it in pieces": (
        "models/test_summarizing.py::test_a_head_beyond_the_summarisers_window_is_condensed_in_pieces",
    ),
    "the daemon learns the length when the server first refuses a request that is too long": (
        "models/test_overflow.py::test_an_unknown_window_is_learned_from_the_refusal",
    ),
    "is compacted, before a prompt and between the model calls of a long run": (
        "conductor/test_engines.py::test_the_gate_opens_before_a_prompt_that_would_not_fit",
        "conductor/test_engines.py::test_a_long_run_is_kept_within_the_window_by_the_sessions_own_engine",
    ),
    "`/preview` shows the effect, `/compact` does it now, `/undo` takes it back": (
        "conductor/test_commands.py::test_compact_preview_and_undo",
        "conductor/test_engines.py::test_the_parts_of_a_preview_are_those_of_its_compaction",
    ),
    "left after 1, 5, 15 compactions": ("conductor/test_engines_survival.py::test_planted_facts_survive",),
    "a refusal is asked for once more, and lines that name what was never said are dropped": (
        "conductor/compaction/test_checked_model.py::test_a_model_that_refuses_is_asked_again_with_the_reason",
        "conductor/compaction/test_checked_model.py::test_a_summary_loses_the_lines_that_cannot_be_true",
    ),
    "the model can search it, word for word, with the tool `recall`": (
        "conductor/test_recall.py::test_what_a_compaction_folded_away_can_be_recalled",
    ),
    "A line like `@docs/style.md` imports a file": (
        "conductor/rules/test_rule_files.py::test_imports_are_read_beside_the_file_and_only_inside",
    ),
    "`/context` lists the files with their sizes": (
        "conductor/rules/test_rule_files.py::test_the_usage_and_the_command_list_the_files_with_their_sizes",
    ),
    "Rule files are not part of the conversation and cannot be lost": (
        "conductor/test_session.py::test_rules_of_the_project_are_in_every_request_as_they_are_now",
        "conductor/rules/test_rule_files.py::test_after_a_compaction_the_rules_of_a_folder_are_still_known",
    ),
    "then those of each folder from the root of the repository down to the session's folder": (
        "conductor/rules/test_rule_files.py::test_both_files_of_every_folder_from_the_repository_down_count_in_order",
        "conductor/rules/test_rule_files.py::test_the_users_own_rules_come_first",
    ),
    "Those of a folder further down come with the first file that the model reads or changes below it": (
        "conductor/rules/test_rule_files.py::test_rules_of_a_folder_come_with_the_first_read_below_it",
        "conductor/rules/test_rule_files.py::test_a_file_that_is_written_into_a_folder_shows_its_rules_too",
    ),
    "only regular files inside the repository or the session's folders count, whatever links say": (
        f"{UNASKED}::test_a_rule_file_that_is_no_plain_file_of_the_project_is_left_out_with_a_notice",
    ),
    "adds the results of a search to each prompt, with any engine": (
        "conductor/test_knowledge.py::test_every_engine_sends_the_results",
        "e2e/test_engines.py::test_the_workspace_is_searched",
    ),
    "`workspace` searches the files, unsaved text included": (
        "rooms/knowledge/test_workspace_folder.py::test_an_unsaved_buffer_is_found_before_its_file",
    ),
    "`sessions` searches earlier conversations in this folder and the compacted part of this one": (
        "e2e/test_engines.py::test_a_second_session_recalls_what_the_first_has_learned",
        "e2e/test_engines.py::test_dropped_content_of_a_compaction_is_recalled",
        "rooms/knowledge/test_library.py::test_conversations_of_another_folder_are_not_found",
    ),
    "Both are indexed in the background and stay on this machine": (
        "rooms/knowledge/test_workspace.py::test_it_answers_while_it_is_built",
        "rooms/knowledge/test_index.py::test_an_index_is_readable_by_its_owner_alone",
    ),
    "and each call asks first": ("capabilities/mcp/test_tool.py::test_permission_is_asked_before_each_call",),
    "in a process group of its own that ends with the session": (
        "capabilities/mcp/test_process.py::test_the_whole_group_ends_with_the_session",
    ),
    "prompts wait for it for at most ten seconds": (
        f"{SERVERS}::test_a_prompt_waits_no_longer_than_is_bearable_and_the_next_one_not_at_all",
    ),
    "A server that crashes, hangs or sends nonsense costs its own tools only, and a notice says so": (
        f"{SERVERS}::test_a_server_that_does_not_start_costs_only_its_tools",
        f"{SERVERS}::test_the_tools_of_a_server_that_ends_stay_declared_until_the_next_prompt",
        "capabilities/mcp/test_process.py::test_answers_that_are_wrong_or_too_much",
        "conductor/test_clients.py::test_a_message_of_a_server_is_a_notice",
    ),
    "Its arguments, environment and headers are not stored": (
        "conductor/test_clients.py::test_secrets_are_not_stored_and_a_loaded_session_names_missing_servers",
    ),
    "one that crashes is started again": (f"{SERVERS}::test_a_server_that_ended_is_started_again_by_itself",),
    "ask again, and an unknown command is covered word for word": (f"{POLICY}::test_coverage",),
    "One answer covers all tests, checks and builds, and one the local steps of `git`": (
        f"{POLICY}::test_coverage",
        f"{POLICY}::test_always_says_what_it_covers",
    ),
    "A line of several commands is read as bash reads it, and runs unasked when each part may": (
        "text/test_shell.py::test_bash_gives_a_program_the_words_that_were_read",
        "text/test_shell.py::test_bash_runs_no_other_commands_than_those_that_were_read",
        "permissions/test_properties.py::test_a_covered_compound_has_only_covered_parts",
    ),
    "Commands that only read inside the session's folders run at once": (
        f"{POLICY}::test_reading_inside_is_free",
    ),
    "`ls` of a `.venv/bin` on the `PATH` is not the known one": (
        "permissions/test_programs.py::test_a_program_inside_asks",
    ),
    "shells ask for every change, also after *always*": (
        "permissions/test_protected.py::test_a_file_that_other_programs_obey_asks_each_time",
    ),
    "Every other hidden file asks for": (
        "permissions/test_protected.py::test_always_about_a_hidden_file_reaches_that_file_only",
        "permissions/test_protected.py::test_a_rule_reaches_a_hidden_file_only_when_it_names_a_hidden_one",
    ),
    "a project cannot bring any, and a denial counts in every mode": (
        f"{POLICY}::test_rules_decide_before_modes_and_answers",
        "llmgateway/test_config.py::test_permission_rules_are_the_users_own",
    ),
    "says what decides": ("commands/test_permissions.py::test_the_decision_and_its_reason",),
    "A folder imports only from its own row and the rows below it": (
        "test_readme.py::test_imports_point_down_the_map",
    ),
    "stays right when the conversation is undone or rewound": (
        "conductor/test_indexes.py::test_an_index_that_is_advanced_equals_one_that_is_rebuilt",
    ),
    "A test plays these three journeys and checks that they pass these functions in this order": (
        "test_readme.py::test_a_journey_passes_the_functions_that_are_named_in_their_order",
    ),
}
"""Words of the other sections that promise something, and the tests that keep them."""


def plain(text: str) -> str:
    """Return *text* with single spaces for line breaks."""
    return " ".join(text.split())


TEXT = plain(PAGES)


def promises() -> list[str]:
    """Return every sentence of "What it promises", without its introduction."""
    section = TEXT.partition("## What it promises")[2].partition(" ## ")[0]
    points = section.split(" - ")[1:]
    return [sentence for point in points for sentence in re.split(r"(?<=[.]) (?=[A-Z])", point.strip())]


@cache
def names_in(path: Path) -> frozenset[str]:
    """Return the names of the tests in a file."""
    return frozenset(re.findall(r"\bdef (test_\w+)", path.read_text(encoding="utf-8")))


def test_every_sentence_of_the_promises_has_tests() -> None:
    assert promises() == list(PROMISED)


def test_the_words_stand_in_the_pages() -> None:
    assert [words for words in SAID if words not in TEXT] == []


def test_the_tests_that_keep_a_promise_exist() -> None:
    named = {test.partition("::") for kept in (PROMISED, SAID) for tests in kept.values() for test in tests}
    assert [f"{path}::{name}" for path, _, name in named if name not in names_in(ROOT / "tests" / path)] == []
