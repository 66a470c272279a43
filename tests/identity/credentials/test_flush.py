"""``manage.py flush_identity`` and the hourly job: what has expired goes, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.utils import timezone

from provisioning.identity.models import ApplicationCredential, RevokedToken, SignIn
from provisioning.identity.services.application_credentials import create_application_credential
from provisioning.identity.services.sign_ins import Client, record_client
from provisioning.identity.services.tokens import issue_token, revoke_token
from tests.support.cast import Person
from tests.support.jobs import run_periodic


@pytest.fixture
def clock() -> Iterator[time_machine.Coordinates]:
    with time_machine.travel(timezone.now(), tick=False) as clock:
        yield clock


def leave_things(alice: Person) -> None:
    sign_in = record_client(alice.user, ("password",), Client.of("10.0.0.1", "x"))
    revoke_token(issue_token(alice.user, None, ("password",), sign_in=sign_in).data)
    for name, ends in (("short", timezone.now() + timedelta(hours=1)), ("endless", None)):
        create_application_credential(alice.user, alice.project, name, expires_at=ends)


def counts() -> tuple[int, int, int]:
    return RevokedToken.objects.count(), SignIn.objects.count(), ApplicationCredential.objects.count()


def test_nothing_goes_before_its_time(alice: Person, clock: time_machine.Coordinates) -> None:
    leave_things(alice)
    call_command("flush_identity")
    assert counts() == (1, 1, 2)


def test_what_expired_goes_once(
    alice: Person, clock: time_machine.Coordinates, capsys: pytest.CaptureFixture[str]
) -> None:
    leave_things(alice)
    clock.shift(timedelta(days=4))
    call_command("flush_identity", "--days", "30")
    assert counts() == (0, 0, 2)
    call_command("flush_identity")
    assert counts() == (0, 0, 1)
    assert ApplicationCredential.objects.get().name == "endless"
    call_command("flush_identity")
    assert capsys.readouterr().out.splitlines() == [
        "Removed: 1 revocations, 1 sessions, 0 known addresses, 0 application credentials, 0 trusts.",
        "Removed: 0 revocations, 0 sessions, 0 known addresses, 1 application credentials, 0 trusts.",
        "Removed: 0 revocations, 0 sessions, 0 known addresses, 0 application credentials, 0 trusts.",
    ]


def test_job_leaves_expired_credentials_to_be_seen_for_a_month(alice: Person, clock: time_machine.Coordinates) -> None:
    leave_things(alice)
    clock.shift(timedelta(days=29))
    run_periodic("identity.flush")
    assert counts() == (0, 0, 2)
    clock.shift(timedelta(days=2))
    run_periodic("identity.flush")
    assert counts() == (0, 0, 1)


def test_days_are_a_sensible_number(db: None) -> None:
    for days in ("-1", "99999999"):
        with pytest.raises(CommandError, match="--days"):
            call_command("flush_identity", "--days", days)
