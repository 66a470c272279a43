"""The event API: scripts follow notifications, their own project's or, for operators, all."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from provisioning.events.models import Event
from provisioning.notifications import services
from provisioning.notifications.messages import Notification, versioned
from tests.sockets.test_browser import happen
from tests.support.cast import People
from tests.support.sockets import Open, in_db, open_socket

__all__ = ["open_socket"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases("sql")]
PATH = "/ws/v1/events?topic=notifications"


def tell(project_id: uuid.UUID, name: str) -> None:
    data = {"tenant_id": project_id.hex, "display_name": name, "host": "kelvin", "node": "kelvin.example"}
    payload = versioned("InstanceActionPayload", "1.8", data)
    services.notify([Notification("instance.pause.end", "nova-compute:kelvin", payload, name)])


def data(frame: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = frame["payload"]["payload"]["nova_object.data"]
    return result


async def test_a_member_follows_the_projects_own_without_names_of_hosts(open_socket: Open, people: People) -> None:
    token = await in_db(lambda: people.alice.token)()
    socket = await open_socket(PATH, x_auth_token=token)
    assert "hello" in await socket.json()
    await in_db(tell)(people.charlie.project_id, "theirs")
    await in_db(tell)(people.alice.project_id, "ours")
    frame = await socket.json()
    assert frame["kind"] == "instance.pause.end"
    assert (data(frame)["display_name"], data(frame)["host"], data(frame)["node"]) == ("ours", None, None)
    assert frame["payload"]["publisher_id"] == "nova-compute"
    assert "kelvin" not in str(frame)


async def test_what_was_missed_is_the_projects_own_too(open_socket: Open, people: People) -> None:
    await in_db(tell)(people.alice.project_id, "zero")
    seen = await in_db(lambda: Event.objects.latest("id").id)()
    for project, name in ((people.charlie.project_id, "theirs"), (people.alice.project_id, "ours")):
        await in_db(tell)(project, name)
    token = await in_db(lambda: people.bob.token)()
    socket = await open_socket(f"{PATH}&since={seen}", x_auth_token=token)
    assert "hello" in await socket.json()
    came = [data(await socket.json())["display_name"]]
    while came[-1] != "ours":  # PostgreSQL sends recent ones again
        came.append(data(await socket.json())["display_name"])
    assert "theirs" not in came


async def test_an_operator_follows_all(open_socket: Open, people: People) -> None:
    token = await in_db(lambda: people.operator.token)()
    socket = await open_socket(f"{PATH}&all_projects=1", x_auth_token=token)
    assert "hello" in await socket.json()
    await in_db(tell)(people.charlie.project_id, "theirs")
    frame = await socket.json()
    assert (data(frame)["display_name"], data(frame)["host"]) == ("theirs", "kelvin")
    assert frame["payload"]["publisher_id"] == "nova-compute:kelvin"


async def test_nobody_else_follows_all(open_socket: Open, people: People) -> None:
    token = await in_db(lambda: people.alice.token)()
    socket = await open_socket(f"{PATH}&all_projects=1", x_auth_token=token)
    assert await socket.closed() == 4403


async def test_there_is_no_other_topic(open_socket: Open, people: People) -> None:
    token = await in_db(lambda: people.operator.token)()
    socket = await open_socket("/ws/v1/events?topic=auth", x_auth_token=token)
    assert await socket.closed() == 4404


async def test_the_projects_events_are_without_notifications(open_socket: Open, people: People) -> None:
    token = await in_db(lambda: people.alice.token)()
    socket = await open_socket("/ws/v1/events", x_auth_token=token)
    assert "hello" in await socket.json()
    await in_db(tell)(people.alice.project_id, "ours")
    await in_db(happen)(people.alice, 1)
    assert (await socket.json())["payload"] == {"n": 1}
