"""A pytest plugin, loaded behind tests.data_folder: the tests run on the PostgreSQL server of TESTS_POSTGRESQL."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

os.environ["NOVELLA_DATABASE_URL"] = os.environ["TESTS_POSTGRESQL"]


@pytest.fixture(scope="session", autouse=True)
def _no_sessions_left(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """End the sessions of threads that live as long as the process: while there is one the database cannot go."""
    yield
    from django.db import connection  # noqa: PLC0415 - the settings are read behind the line above

    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(f"{others} AND pid <> pg_backend_pid()")
