"""Queue, worker groups, live log and whatever runs at once, on PostgreSQL: the same tests again, on a server of their
own.
"""

from __future__ import annotations

import pytest

from tests.jobs.postgresql import run_again, server

__all__ = ["server"]
pytestmark = [pytest.mark.postgresql, pytest.mark.timeout(1800)]

AT_ONCE = [
    "tests/core/test_parallel.py",
    "tests/core/test_doctor_at_once.py",
    "tests/core/test_groups_at_once.py",
    "tests/core/test_place_at_once.py",
    "tests/core/test_row_locks.py",
    "tests/core/test_retry.py",
    "tests/core/test_resize.py::TestManyAtOnce",
    "tests/core/test_shelves_at_once.py",
    "tests/core/test_lifecycle_at_once.py",
    "tests/core/test_interfaces.py::test_many_at_once_pass_no_quota",
    "tests/image/test_at_once.py",
    "tests/image/test_lists.py",
    "tests/image/test_tasks.py",
    "tests/image/test_import.py::test_an_import_goes_on_after_the_death_of_its_worker",
    "tests/image/test_import.py::test_two_workers_with_one_import_do_not_disturb_each_other",
    "tests/image/test_import.py::test_an_import_whose_message_was_lost_is_cast_again",
]
TESTS = [
    "tests/jobs/test_cast.py",
    "tests/jobs/test_long_jobs.py::test_a_long_job_is_run_again_when_its_worker_goes",
    "tests/jobs/test_handed_over.py",
    "tests/jobs/test_queue.py",
    "tests/jobs/test_tailer.py",
    "tests/jobs/test_periodic.py::test_every_job_of_the_cloud_runs_once_whichever_of_many_groups_is_first",
    "tests/notifications/test_webhook.py",
    "tests/notifications/test_follow.py",
    "tests/metrics/test_metrics.py",
    "tests/jobs/test_workers.py::test_jobs_of_several_topics_run_soon_after_the_commit",
    "tests/jobs/test_workers.py::test_a_killed_workers_job_is_run_once_more_at_once",
    "tests/jobs/test_workers.py::test_two_groups_share_the_work_and_run_nothing_twice",
]


@pytest.mark.parametrize(
    "tests",
    [TESTS, AT_ONCE],
    ids=["queue and live log", "at once"],
)
def test_promises_are_kept_on_postgresql(server: str, tests: list[str]) -> None:
    run_again(server, tests)
