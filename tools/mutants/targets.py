"""The functions that are mutated, and the tests that are run for each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """Functions of one module, and the files and folders of their tests; tests that fail soonest come first."""

    name: str
    path: str
    functions: tuple[str, ...]
    tests: tuple[str, ...]


_TARGETS = (
    Target(
        "state",
        "provisioning/compute/state_machine/state.py",
        ("advance", "walk", "_unmoved", "_path", "update", "_write", "announce_all", "_text", "_names"),
        (
            "tests/core/test_states.py",
            "tests/core/test_power_states.py",
            "tests/core/test_launch.py",
            "tests/core/test_repeated_statements.py",
        ),
    ),
    Target(
        "claim",
        "provisioning/compute/host_link/allocations.py",
        (
            "claim_room", "_claim", "_may_have_more", "claim_first", "record_allocation", "occupy",
            "release_allocation", "raise_room", "lower_room", "_fits", "_difference", "_move",
        ),
        (
            "tests/core/test_launch.py",
            "tests/core/test_place_at_once.py",
            "tests/core/test_groups_at_once.py",
            "tests/core/test_place_limits.py",
            "tests/core/test_resize.py",
        ),
    ),
    Target(
        "quota-ledger",
        "provisioning/quotas/services/ledger.py",
        (
            "reserve", "hold_all", "check_room", "_claim", "raise_counters", "_check_user", "_missing",
            "_raise_singly", "_raise_within_limits", "commit", "release", "make_counters", "lock_all",
        ),
        ("tests/quotas/test_ledger.py", "tests/quotas/test_users.py", "tests/quotas/test_compute_api.py",
         "tests/quotas/test_network_api.py", "tests/quotas/test_check.py"),
    ),
    Target(
        "policy",
        "provisioning/identity/policy.py",
        ("allows", "enforce", "_InForce.ask", "_current", "_follow", "_checks", "_is_being_written", "_scope_of",
         "_credentials", "_plain"),
        ("tests/identity/test_policy.py", "tests/policy/test_superiors.py", "tests/policy/test_policy_file.py"),
    ),
    Target(
        "attachments",
        "provisioning/volumes/services/connections/attachments.py",
        (
            "reserve", "check_attachable", "connect", "check_open", "disconnect", "complete", "begin_detaching",
            "roll_detaching", "release", "release_all_of", "refreshed", "Connect.end", "_place", "refuse", "_closed",
        ),
        ("tests/volumes/test_lives.py", "tests/volumes/test_at_once.py", "tests/volumes/test_snapshots.py",
         "tests/volumes/test_bounded_rows.py", "tests/compute_api/test_volumes.py", "tests/volume_api/test_volumes.py"),
    ),
    Target(
        "routers",
        "provisioning/network/services/routing/routers.py",
        (
            "create_router", "update_router", "add_routes", "remove_routes", "delete_router", "check_overlaps",
            "checked_routes", "_plain", "_set_gateway", "_lacks_addresses", "_gateway_port", "_allocate_requested",
            "_remove_gateway",
        ),
        ("tests/network/services/test_routers.py", "tests/network/test_routers_api.py",
         "tests/network/test_extensions.py", "tests/network/test_requests.py"),
    ),
    Target(
        "tokens",
        "provisioning/identity/tokens/tokens.py",
        ("TokenData.audit_ids", "TokenData.root", "issue", "read", "_text", "_bytes"),
        ("tests/identity/test_issue_token.py", "tests/identity/test_tokens_resource.py",
         "tests/identity/test_revocation.py", "tests/identity/auth/test_sessions.py",
         "tests/identity/trusts/test_trust_tokens.py", "tests/identity/test_key_records.py"),
    ),
    Target(
        "leases",
        "provisioning/jobs/queue/rows.py",
        ("put", "put_aside", "free", "is_waiting", "claim", "start", "hold", "finish", "postpone", "requeue",
         "_until"),
        ("tests/jobs/test_queue.py", "tests/jobs/test_cast.py", "tests/jobs/test_bounds.py",
         "tests/jobs/test_message.py", "tests/jobs/test_periodic.py", "tests/jobs/test_long_jobs.py"),
    ),
    Target(
        "runner",
        "compute_agent/engine/runner.py",
        (
            "CommandRunner.busy", "CommandRunner.at_work", "CommandRunner.accept", "CommandRunner.resume",
            "CommandRunner.withdraw", "CommandRunner.sweep", "CommandRunner.stop", "CommandRunner._enqueue",
            "CommandRunner._ends", "CommandRunner._removes", "CommandRunner._run_lane", "CommandRunner._run_first",
            "CommandRunner._carry_out", "CommandRunner._refusal", "CommandRunner._with_newest", "CommandRunner._run",
        ),
        ("tests/agent/test_commands.py", "tests/agent/test_ownership.py", "tests/agent/test_restart.py",
         "tests/agent/test_outbox.py", "tests/agent/test_progress.py", "tests/agent/test_workers.py",
         "tests/agent/test_build.py", "tests/agent/test_leftovers.py"),
    ),
    Target(
        "qcow2",
        "compute_agent/disk_formats/qcow2.py",
        ("check", "backing_file", "_File.has_table", "_File.has_l2_tables", "_File.check_expansion",
         "_File.last_cluster"),
        ("tests/agent/test_qcow2.py", "tests/image/test_formats.py", "tests/image/test_attacks.py"),
    ),
    Target(
        "ec2-signatures",
        "provisioning/identity/credentials/ec2_signatures.py",
        (
            "SignedRequest.is_signed_with", "SignedRequest.is_timely", "SignedRequest.valid_until",
            "SignedRequest._version_2", "SignedRequest._version_4", "SignedRequest._signed_4", "is_s3_signature",
            "_sign_4", "_query", "_hosts", "_authorization", "_is_recent_stamp", "_is_timely_2", "_iso", "_is_over",
            "_is_recent",
        ),
        ("tests/identity/credentials/test_signatures.py", "tests/identity/credentials/test_ec2_tokens.py",
         "tests/ec2_api/test_protocol.py", "tests/ec2_api/test_requests.py"),
    ),
    Target(
        "idempotency",
        "provisioning/ec2/client_tokens.py",
        ("once", "alone"),
        ("tests/ec2_api/test_records.py", "tests/ec2_api/test_parallel.py", "tests/ec2_api/test_instances.py"),
    ),
    Target(
        "launch-idempotency",
        "provisioning/compute/launch/idempotency.py",
        ("LaunchIdentity.instance_id", "LaunchIdentity.launched_before", "identity_of"),
        ("tests/core/test_launch_identity.py", "tests/dashboard/test_launch.py"),
    ),
)  # fmt: skip
TARGETS = {target.name: target for target in _TARGETS}
