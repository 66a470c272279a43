"""Imports whose worker died, staged data that nobody wants any more, and files of nobody."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.utils import timezone
from django_q.models import OrmQ
from pytest_django import Settings

from provisioning.common.errors import TooLargeError
from provisioning.images import services
from provisioning.images.data import store as image_store
from provisioning.images.models import Image, ImageTask
from provisioning.images.services.imports import Import
from provisioning.images.services.staging import Stage
from tests.image import pictures
from tests.image.conftest import MakeImage, files
from tests.image.imports.importing import ask, put, show, task_of
from tests.support.cast import Person
from tests.support.jobs import drain, run_periodic
from tests.support.landing import one_in
from tests.support.web import Web

pytestmark = pytest.mark.django_db(transaction=True)


WORKER = """
import ipaddress, os, signal, sys
import django
from django.conf import settings
settings.DATABASES["default"]["NAME"] = sys.argv[1]
settings.IMAGE_DIR, settings.IMPORT_ALLOWED_PORTS = sys.argv[2], [int(sys.argv[3])]
settings.IMPORT_ALLOWED_NETWORKS = [ipaddress.ip_network("127.0.0.1/32")]
django.setup()
from compute_agent.disk_formats import inspection
from provisioning.images.services.imports import run
whole = inspection.Inspector.__iter__
def dying(inspector):
    for number, piece in enumerate(whole(inspector)):
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        yield piece
inspection.Inspector.__iter__ = dying
run(sys.argv[4])
"""


@pytest.mark.slow
@one_in(2, "staged", [False, True])
@pytest.mark.both_databases
def test_an_import_goes_on_after_the_death_of_its_worker(
    alice: Person, make: MakeImage, web: Web, store: Path, staged: bool
) -> None:
    image = make()
    data = pictures.raw(4 * pictures.MIB)
    if staged:
        put(alice, image, data)
    ask(alice, image, None if staged else web.serve("/x", data))
    name, task_id = str(connection.settings_dict["NAME"]), str(task_of(image).id)
    worker = subprocess.run(
        [sys.executable, "-c", WORKER, name, str(store), str(web.port), task_id],
        env={**os.environ, "NOVELLA_ROLE": "worker", "DJANGO_SETTINGS_MODULE": "portal.settings"},
        timeout=300,
    )
    assert worker.returncode == -signal.SIGKILL
    left = image_store.staged_of(image.id) if staged else image_store.part_of(image.id)
    assert (show(alice, image)["status"], files(store)) == ("importing", [left.name])
    assert task_of(image).status == "processing"
    assert not image_store.upload_is_alive(image.id)
    drain()  # the queue delivers it again
    assert (show(alice, image)["status"], files(store)) == ("active", [str(image.id)])
    assert (store / str(image.id)).read_bytes() == data


@pytest.mark.both_databases
def test_an_import_whose_message_was_lost_is_cast_again(alice: Person, make: MakeImage, web: Web) -> None:
    image = make()
    ask(alice, image, web.serve("/x", pictures.raw()))
    OrmQ.objects.all().delete()
    run_periodic("images.clean_up")
    assert drain() == 0
    ImageTask.objects.update(updated_at=timezone.now() - timedelta(seconds=Import.timeouts["pending"].seconds + 1))
    run_periodic("images.clean_up")
    run_periodic("images.clean_up")
    assert drain() == 1
    assert show(alice, image)["status"] == "active"


def test_staged_data_is_given_up_after_a_time(alice: Person, make: MakeImage, store: Path, settings: Settings) -> None:
    settings.STAGING_TIMEOUT = 600
    image = make()
    put(alice, image, pictures.raw())
    Image.objects.update(updated_at=timezone.now() - timedelta(seconds=599))
    run_periodic("images.clean_up")
    assert show(alice, image)["status"] == "uploading"
    Image.objects.update(updated_at=timezone.now() - timedelta(seconds=601))
    run_periodic("images.clean_up")
    assert (show(alice, image)["status"], show(alice, image)["size"], files(store)) == ("queued", None, [])


def test_staging_that_died_is_given_up_soon(alice: Person, make: MakeImage, store: Path) -> None:
    image = make()
    store.mkdir(exist_ok=True)
    image_store.part_of(image.id).write_bytes(b"half")
    old = timezone.now() - timedelta(seconds=Stage.timeouts["uploading"].seconds + 1)
    Image.objects.update(status="uploading", updated_at=old)
    run_periodic("images.clean_up")
    assert (show(alice, image)["status"], files(store)) == ("queued", [])


def test_staging_that_goes_on_is_left_alone(alice: Person, make: MakeImage) -> None:
    image = make()

    def slow() -> Iterator[bytes]:
        yield b"a"
        Image.objects.update(updated_at=timezone.now() - timedelta(days=9))
        run_periodic("images.clean_up")
        yield b"b"

    assert services.stage(alice.context, image.id, slow()).status == "uploading"
    assert image_store.staged_of(image.id).read_bytes() == b"ab"


def test_files_of_nobody_are_swept(alice: Person, make: MakeImage, store: Path) -> None:
    kept = make(data=pictures.raw())
    staged = make()
    put(alice, staged, b"x")
    for name in (f"{uuid.uuid4()}.part", f"{uuid.uuid4()}.staged", f"{kept.id}.part"):
        (store / name).write_bytes(b"left")
    (store / "README.txt").write_text("not ours")
    run_periodic("images.clean_up")
    assert files(store) == sorted(["README.txt", str(kept.id), f"{staged.id}.staged"])


def test_a_quota_that_is_full_stops_a_download(alice: Person, make: MakeImage, settings: Settings) -> None:
    settings.IMAGE_STORAGE_QUOTA = 10
    with pytest.raises(TooLargeError, match="storage quota has left"):
        services.upload(alice.context, make().id, [b"x" * 11])
