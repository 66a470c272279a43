"""Writers of one image at the same moment."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest
from django.db import connection
from django_q.models import OrmQ
from pytest_django import Settings

from provisioning.common.errors import NovellaError
from provisioning.images import selectors, services
from provisioning.images.models import Image, ImageMember, ImageProperty, ImageTag, ImageTask
from provisioning.images.records.changes import Change
from provisioning.images.services import tasks
from provisioning.images.services.imports import Import, ImportRequest
from provisioning.jobs.queue.cast import verify
from provisioning.quotas.services.limits import set_limit
from tests.image import pictures
from tests.support.cast import People, make_people, make_project

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases("locks")]


@pytest.fixture
def cast(transactional_db: None) -> People:
    return make_people()


def at_once(*works: Callable[[], object]) -> Counter[str]:
    """Do all of it in threads that start together; count the answers: errors by their class, others as ``done``."""
    results: list[str] = []
    start = threading.Barrier(len(works))

    def run(work: Callable[[], object]) -> None:
        start.wait(300)
        try:
            work()
            results.append("done")
        except NovellaError as error:
            results.append(type(error).__name__)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()
    assert len(results) == len(works)
    return Counter(results)


def test_no_change_is_lost(cast: People) -> None:
    context = cast.alice.context
    image = services.create(context, name="x", properties={"there": "1"})

    def add(number: int) -> Callable[[], object]:
        return lambda: services.patch(context, image.id, [Change("add", f"p{number}", "x")])

    def tag(number: int) -> Callable[[], object]:
        return lambda: services.set_tag(context, image.id, f"t{number}", present=True)

    assert at_once(*(add(number) for number in range(4)), *(tag(number) for number in range(4))) == {"done": 8}
    image.refresh_from_db()
    assert set(image.properties) == {"there", "p0", "p1", "p2", "p3"}
    assert sorted(image.tags) == ["t0", "t1", "t2", "t3"]
    assert set(ImageProperty.objects.values_list("name", flat=True)) == set(image.properties)
    assert set(ImageTag.objects.values_list("tag", flat=True)) == set(image.tags)


def test_members_come_once_and_not_beyond_their_limit(cast: People, settings: Settings) -> None:
    context, other = cast.alice.context, cast.charlie.project_id
    image = services.create(context, name="x")
    assert at_once(*[lambda: services.add_member(context, image.id, other)] * 4) == {"done": 1, "ConflictError": 3}
    settings.IMAGE_MEMBER_LIMIT = 3
    more = [make_project(f"p{number}").id for number in range(4)]

    def add(number: int) -> Callable[[], object]:
        return lambda: services.add_member(context, image.id, more[number])

    assert at_once(*(add(number) for number in range(4))) == {"done": 2, "TooLargeError": 2}
    assert ImageMember.objects.count() == 3


def test_deleted_or_deactivated(cast: People) -> None:
    for _ in range(3):
        image = services.create(cast.alice.context, disk_format="raw", container_format="bare")
        services.upload(cast.alice.context, image.id, [pictures.raw(512)])
        at_once(
            lambda: services.delete(cast.alice.context, image.id),  # noqa: B023 - the threads end before the loop goes on
            lambda: services.deactivate(cast.operator.context, image.id),  # noqa: B023
            lambda: services.update(cast.alice.context, image.id, {"name": "y"}),  # noqa: B023
        )
        assert Image.objects.get(id=image.id).status == Image.Status.DELETED
        assert selectors.images_for(cast.operator.context) == []


def test_many_at_once_make_no_more_images_than_the_quota_has(cast: People) -> None:
    set_limit(cast.alice.project_id, "image_count_total", 3)
    made = at_once(*[lambda: services.create(cast.alice.context, name="x") for _ in range(8)])
    assert made == {"done": 3, "OverQuotaError": 5}
    assert Image.objects.count() == 3


def test_imports_at_once_leave_the_others_waiting(cast: People, settings: Settings) -> None:
    settings.IMPORTS_AT_ONCE, settings.IMPORT_ALLOWED_NETWORKS = 2, []
    request = ImportRequest("web-download", "https://images.example/x")
    images = [
        services.create(cast.alice.context, name="x", disk_format="raw", container_format="bare") for _ in range(6)
    ]
    results = at_once(
        *[partial(Import.begin, cast.alice.context, image.id, request) for image in images],
    )
    assert results == {"done": 6}
    waiting = [message.payload["task_id"] for message in map(verify, OrmQ.objects.values_list("payload", flat=True))]
    oldest = ImageTask.objects.order_by("created_at", "id")[:2]
    assert set(waiting) >= {str(task.id) for task in oldest}
    for task in ImageTask.objects.order_by("created_at", "id")[2:]:
        assert tasks.begin(task.id) is None
