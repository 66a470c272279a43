"""The tests' databases: migrated once, copied for each worker; some tests run on SQLite and again on PostgreSQL.

The migrated SQLite file is the one that bin/up keeps for new clouds: whoever needs it first makes it.
``tests/conftest.py`` loads this module as a plugin.  A test marked ``both_databases`` gets an argument ``database``,
and its mark says why it runs twice, ``both_databases("locks")`` (SUBJECTS), or its variant for PostgreSQL is deep.
While that variant runs, the name ``default`` stands for a database on a server that the whole session shares, in this
process and in those that the test starts.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from asgiref.local import Local
from asgiref.sync import SyncToAsync
from django.conf import settings
from django.contrib.contenttypes.models import ContentType
from django.db import connection, connections, transaction
from django.test import TransactionTestCase
from pytest_django import DjangoDbBlocker

from portal.environment import database as read_database
from provisioning.common.processes import threads
from provisioning.events.tailer import tailer
from tests.support.postgresql_server import READY, TEMPLATE, url_of
from up import kept
from up.prepare import database_key

CHECKOUT = Path(__file__).resolve().parents[2]
START_WITHIN = 300.0
SUBJECTS = {"locks", "sql", "constraints"}
"""Why a test runs on PostgreSQL at landing, too: it is about rows that are locked, about statements that are written
differently there, or about what the database refuses.
"""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a marked test again on PostgreSQL; that is deep unless its mark names a subject."""
    definition = metafunc.definition
    uses_it = "db" in metafunc.fixturenames or "transactional_db" in metafunc.fixturenames
    mark = definition.get_closest_marker("both_databases")
    if mark and (uses_it or definition.get_closest_marker("django_db")):
        if not SUBJECTS.issuperset(mark.args):
            raise pytest.UsageError(f"{definition.nodeid}: both_databases takes {', '.join(sorted(SUBJECTS))}")
        marks = [pytest.mark.postgresql, *([] if mark.args else [pytest.mark.deep])]
        metafunc.parametrize("database", ["sqlite", pytest.param("postgresql", marks=marks)], indirect=True)


@pytest.fixture(autouse=True)
def database(request: pytest.FixtureRequest) -> Iterator[str]:
    """The kind of database that the test runs on."""
    yield str(getattr(request, "param", "sqlite"))
    tailer().stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Exchange the database before the first fixture is made, and back after the last has gone."""
    callspec = getattr(item, "callspec", None)
    if callspec is None or callspec.params.get("database") != "postgresql":
        return (yield)
    with _on_postgresql():
        return (yield)


# ----- after tests that commit ----------------------------------------------------------------------------------------

STAYING = {"django_migrations", "django_content_type", "auth_permission"}


def _empty(case: TransactionTestCase) -> None:
    """Delete all rows; in the place of Django's flush, which truncates each table and makes all permissions anew.

    Threads end first what the test has left to them.  From now on nothing may use a database: a transaction that is cut
    off by that leaves its thread's connection without autocommit for the rest of the run, its reads and writes are
    refused at once while others write, and what it has for its commits is never done.
    """
    tailer().stop()
    _let_threads_end()
    for alias in case._databases_names(include_mirrors=False):
        with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
            for table in _tables(connections[alias].vendor):
                cursor.execute(f'DELETE FROM "{table}"')  # noqa: S608 - names of our own tables


@functools.cache
def _tables(vendor: str) -> list[str]:
    del vendor  # one for each kind of database
    return sorted(set(connection.introspection.django_table_names(only_existing=True)) - STAYING)


TransactionTestCase._fixture_teardown = _empty


# ----- SQLite ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def django_db_setup(django_test_environment: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Give this process a migrated SQLite file; in the place of pytest-django's fixture, which migrates each time."""
    with django_db_blocker.unblock(), _on(*_sqlite):
        _make_sqlite()
    yield
    with django_db_blocker.unblock(), _on(*_sqlite):
        connection.close()


def _make_sqlite() -> None:
    path = Path(connection.settings_dict["TEST"]["NAME"])
    kept.FOLDER.mkdir(parents=True, exist_ok=True)
    with _locked(kept.FOLDER / "lock"):
        key = database_key()
        shutil.copyfile(kept.find("database", key) or kept.make("database", key, _migrated), path)
    connection.settings_dict["NAME"] = str(path)


def _migrated(folder: Path) -> Path:
    connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    connection.close()
    return Path(shutil.copyfile(connection.settings_dict["TEST"]["NAME"], folder / "db.sqlite3"))


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep other processes of the session out."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# ----- PostgreSQL -----------------------------------------------------------------------------------------------------

Connections = tuple[dict[str, Any], Local]
"""The settings of a database, and each thread's connection to it."""
_sqlite: Connections = (connections.settings["default"], connections._connections)
_postgresql: list[Connections] = []


@contextlib.contextmanager
def _on(options: dict[str, Any], local: Local) -> Iterator[None]:
    """Let ``default`` stand for a database, in every thread.

    Threads end first what a test has left to them: a transaction that begins on one database and ends on another
    stays open, and locks the first one for good.
    """
    before = connections.settings["default"], connections._connections
    _let_threads_end()
    connections.settings["default"], connections._connections = options, local
    try:
        yield
    finally:
        _let_threads_end()
        connections.settings["default"], connections._connections = before


def _let_threads_end() -> None:
    """Wait for the database work that event loops and ``sync_to_async`` have handed to threads."""
    for pool in (threads.LINKS, threads.SOCKETS, threads.RENDERS):
        pool.settle()
    SyncToAsync.single_thread_executor.submit(lambda: None).result(60)


@contextlib.contextmanager
def _on_postgresql() -> Iterator[None]:
    os.environ["NOVELLA_DATABASE_URL"] = url_of(_server())
    try:
        if not _postgresql:
            _postgresql.append(_make_postgresql())
        with _on(*_postgresql[0]):
            ContentType.objects.clear_cache()
            yield
    finally:
        del os.environ["NOVELLA_DATABASE_URL"]
        ContentType.objects.clear_cache()


def _make_postgresql() -> Connections:
    """Make a database of this process's own, and settings for it."""
    name = f"test_{os.getpid()}"
    with psycopg.connect(url_of(_server()).replace("postgres:", "postgresql:"), autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
    options = read_database("NOVELLA_DATABASE_URL", settings.PORTAL_DIR, settings.ROLE, 20)
    options["NAME"] = name
    return connections.configure_settings({"default": options})["default"], Local(connections.thread_critical)


def _server() -> Path:
    """The folder of the session's server; whoever needs it first starts it."""
    worker = "PYTEST_XDIST_WORKER" in os.environ
    session = os.getppid() if worker else os.getpid()
    folder = Path(tempfile.gettempdir()) / f"nv-pg-{session}"
    with _locked(Path(tempfile.gettempdir()) / f"nv-pg-{session}.lock"):
        if not (folder / READY).exists():
            module = "tests.support.postgresql_server"
            start = ["setsid", "--fork", sys.executable, "-m", module, str(folder), str(session)]
            environment = {**os.environ, "PYTHONPATH": str(CHECKOUT / "bin" / "libexec")}
            subprocess.run(start, cwd=CHECKOUT, env=environment, stdin=subprocess.DEVNULL, check=True)
            deadline = time.monotonic() + START_WITHIN
            while not (folder / READY).exists():
                assert time.monotonic() < deadline, "PostgreSQL did not start"
                time.sleep(0.05)
    return folder
