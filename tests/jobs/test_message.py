"""Only what we sealed is run, and only registered jobs; a message somebody else wrote is removed."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.signing import BadSignature
from django_q.models import OrmQ
from django_q.signing import SignedPackage
from django_q.tasks import async_task

from provisioning.events import wake
from provisioning.jobs.queue import rows
from provisioning.jobs.queue.cast import JobMessage, MessageError, cast, sign, verify
from provisioning.jobs.workers.django_q_internals import SignedMessages
from tests.jobs.conftest import Group, eventually, words
from tests.jobs.worker import TOPICS

MESSAGE = JobMessage("t", "j", {"a": [1, "zwei", None]}, "req-1", 1.5)


def test_what_was_sealed_comes_back() -> None:
    assert verify(sign(MESSAGE)) == MESSAGE


@pytest.mark.parametrize(
    "tampered",
    [
        lambda text: text.replace("zwei", "drei"),
        lambda text: "0" * 64 + text[64:],
        lambda text: text[65:],
        lambda text: text[:-1],
        lambda text: "",
        lambda text: "ü.{}",
    ],
)
def test_a_changed_message_is_refused(tampered: Callable[[str], str]) -> None:
    with pytest.raises(MessageError, match="signature"):
        verify(tampered(sign(MESSAGE)))


def test_another_bus_key_is_refused(settings: Any) -> None:
    text = sign(MESSAGE)
    settings.BUS_KEY = "another"
    with pytest.raises(MessageError):
        verify(text)


def test_a_message_of_the_bus_key_before_is_accepted(settings: Any) -> None:
    text, old = sign(MESSAGE), settings.BUS_KEY
    settings.BUS_KEY, settings.BUS_KEY_FALLBACKS = "another", [old]
    assert verify(text) == MESSAGE
    assert sign(MESSAGE) != text, "the first key signs"


def test_the_secret_key_is_not_the_bus_key(settings: Any) -> None:
    text = sign(MESSAGE)
    settings.SECRET_KEY = "another"
    assert verify(text) == MESSAGE


@pytest.mark.parametrize("job", ["os.system", "provisioning.jobs.workers.dispatch.run", "tests.worker.other_topic"])
def test_a_job_that_is_not_of_the_topic_is_refused(job: str) -> None:
    text = sign(JobMessage(TOPICS[0], job, {}, "-", 0.0))
    with pytest.raises(BadSignature, match="not registered"):
        SignedMessages.loads(rows.ClaimedMessage(1, text))


@pytest.mark.django_db
def test_django_q_itself_queues_no_pickles() -> None:
    with pytest.raises(TypeError, match="cast"):
        async_task("os.getpid")
    assert not OrmQ.objects.exists()


def test_forged_messages_are_removed_and_never_unpickled(
    start_group: Callable[..., Group], log: Path, tmp_path: Path
) -> None:
    start_group(workers=1)
    ours = tmp_path / "pwned"
    forged = [
        SignedPackage.dumps({"id": "1", "name": "x", "func": "os.system", "args": (f"touch {ours}",), "kwargs": {}}),
        pickle.dumps(ours, protocol=0).decode(),
        sign(JobMessage(TOPICS[0], "os.system", {"command": f"touch {ours}"}, "-", 0.0)),
        sign(JobMessage(TOPICS[0], "tests.worker.note", {"log": str(ours)}, "-", 0.0)).replace(
            "worker.note", "worker.fail"
        ),
    ]
    for text in forged:
        OrmQ.objects.create(key=TOPICS[0], payload=text, lock=rows.FREE)
    wake.poke(wake.QUEUE)
    cast(TOPICS[0], "tests.worker.note", log=str(log))
    eventually(lambda: words(log) == ["ran"], "the message behind them ran")
    eventually(lambda: not OrmQ.objects.filter(key=TOPICS[0]).exists(), "the forged ones are gone")
    assert not ours.exists()
