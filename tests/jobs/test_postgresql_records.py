"""Identity, lists, places, quotas and odd requests on PostgreSQL: the same tests again, on a server of their own."""

from __future__ import annotations

import pytest

from tests.jobs.postgresql import run_again, server

__all__ = ["server"]
pytestmark = [pytest.mark.postgresql, pytest.mark.timeout(1800)]

LISTS = ["tests/compute_api/test_servers_filters.py"]
QUOTAS = ["tests/quotas/test_at_once.py", "tests/quotas/test_check.py"]
IDENTITY = [
    "tests/identity/test_at_once.py",
    "tests/identity/directory/test_hostile_input.py",
    "tests/identity/grants/test_role_assignments.py",
    "tests/identity/test_revocation.py",
    "tests/identity/test_cost.py",
]
QUOTAS = ["tests/quotas/test_at_once.py", "tests/quotas/test_check.py"]
IDENTITY = [
    "tests/identity/test_at_once.py",
    "tests/identity/directory/test_hostile_input.py",
    "tests/identity/grants/test_role_assignments.py",
    "tests/identity/test_revocation.py",
    "tests/identity/test_cost.py",
]
IDENTITY = [
    "tests/identity/test_at_once.py",
    "tests/identity/directory/test_hostile_input.py",
    "tests/identity/grants/test_role_assignments.py",
    "tests/identity/test_revocation.py",
    "tests/identity/test_cost.py",
]
PLACES = ["tests/core/test_place_limits.py", "tests/core/test_decisions.py", "tests/core/test_dry_run.py"]
ODD = ["tests/fuzz"]
TESTS = [
    "tests/jobs/test_cast.py",
    "tests/jobs/test_long_jobs.py::test_a_long_job_is_run_again_when_its_worker_goes",
    "tests/jobs/test_queue.py",
    "tests/jobs/test_tailer.py",
    "tests/jobs/test_workers.py::test_jobs_of_several_topics_run_soon_after_the_commit",
    "tests/jobs/test_workers.py::test_a_killed_workers_job_is_run_once_more_at_once",
    "tests/jobs/test_workers.py::test_two_groups_share_the_work_and_run_nothing_twice",
]


@pytest.mark.parametrize(
    "tests",
    [LISTS, PLACES, QUOTAS, IDENTITY, ODD],
    ids=["lists of servers", "places", "quotas", "identity", "odd requests"],
)
def test_promises_are_kept_on_postgresql(server: str, tests: list[str]) -> None:
    run_again(server, tests)
