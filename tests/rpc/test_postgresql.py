"""Queue, worker groups, live log, identity and whatever runs at once, on PostgreSQL: the same tests again, on a server
of their own.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rpc.conftest import ROOT, eventually

pytestmark = pytest.mark.postgresql

AT_ONCE = [
    "tests/core/test_parallel.py",
    "tests/core/test_classic_faults_at_once.py",
    "tests/core/test_groups_at_once.py",
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
LISTS = ["tests/compute_api/test_servers_filters.py"]
QUOTAS = ["tests/quotas/test_at_once.py", "tests/quotas/test_check.py"]
IDENTITY = [
    "tests/identity/test_at_once.py",
    "tests/identity/directory/test_hostile_input.py",
    "tests/identity/grants/test_role_assignments.py",
    "tests/identity/test_revocation.py",
    "tests/identity/test_cost.py",
]
ODD = ["tests/fuzz"]
TESTS = [
    "tests/rpc/test_cast.py",
    "tests/rpc/test_long_jobs.py::test_a_long_job_is_run_again_when_its_worker_goes",
    "tests/rpc/test_queue.py",
    "tests/rpc/test_tailer.py",
    "tests/rpc/test_workers.py::test_jobs_of_several_topics_run_soon_after_the_commit",
    "tests/rpc/test_workers.py::test_a_killed_workers_job_is_run_once_more_at_once",
    "tests/rpc/test_workers.py::test_two_groups_share_the_work_and_run_nothing_twice",
]


def _programs() -> Path:
    """Where the newest server's programs are; Debian keeps them out of the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    if found:
        return found[-1]
    postgres = shutil.which("postgres")
    if postgres is None:
        pytest.skip("PostgreSQL is not installed (apt install postgresql).")
    return Path(postgres).parent


def _as_postgres() -> dict[str, int]:
    """The server refuses to run as root."""
    if os.getuid() != 0:
        return {}
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        user = pwd.getpwnam("nobody")
    return {"user": user.pw_uid, "group": user.pw_gid}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of an empty server that ends with the tests."""
    programs, user = _programs(), _as_postgres()
    folder = Path(tempfile.mkdtemp(prefix="nv-pg-"))
    if user:
        os.chown(folder, user["user"], user["group"])
    data = folder / "data"
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    initdb = [str(programs / "initdb"), "-D", str(data), "-U", "novella", "-A", "trust", "-E", "UTF8", "--no-sync"]
    subprocess.run(initdb, check=True, capture_output=True, env=environment, cwd=folder, **user)
    process = subprocess.Popen(
        [str(programs / "postgres"), "-D", str(data), "-k", str(folder), "-h", "", "-F", "-N", "300"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        cwd=folder,
        **user,
    )
    try:
        ready = [str(programs / "pg_isready"), "-q", "-h", str(folder)]
        eventually(lambda: subprocess.run(ready, check=False).returncode == 0, "the server is ready")
        yield f"postgres://novella@/postgres?host={folder}"
    finally:
        process.terminate()
        process.wait(20)
        shutil.rmtree(folder)


@pytest.mark.parametrize(
    "tests",
    [TESTS, AT_ONCE, LISTS, QUOTAS, IDENTITY, ODD],
    ids=["queue and live log", "at once", "lists of servers", "quotas", "identity", "odd requests"],
)
def test_promises_are_kept_on_postgresql(server: str, tests: list[str]) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.rpc.on_postgresql", "-p", "no:cacheprovider", *tests],
        cwd=ROOT,
        env={**os.environ, "TESTS_POSTGRESQL": server},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
