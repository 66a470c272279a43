"""A chaos run finds losses after records were lost."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tools.chaos.checks.journals import Seen
from tools.chaos.checks.losses import Loss, Records, Server, destroyed
from tools.chaos.faults.recovery import with_used

GUEST, VOLUME, SNAPSHOT, IMAGE, DISK = (str(uuid.UUID(int=number)) for number in range(1, 6))
MAC = "fa:16:3e:00:00:01"
DOMAIN = {"attempt": 3, "power": 1, "volumes": [{"attachment_id": DISK}], "interfaces": [MAC]}
DATA: Mapping[str, Any] = {"size": 2, "snapshots": {SNAPSHOT: 1}}
LAST = Records(
    servers={GUEST: Server("active", None, "a")},
    volumes={VOLUME: "in-use"},
    snapshots={SNAPSHOT: "available"},
    attachments={DISK: "attached"},
    images=frozenset({IMAGE}),
    leaving=frozenset(),
    ids=frozenset({VOLUME, SNAPSHOT, DISK}),
)
NOTHING = Records({}, {}, {}, {}, frozenset(), frozenset(), frozenset())
SEEN = Seen({GUEST: ("a", DOMAIN)}, {GUEST: "a"}, {}, pools={"p": {VOLUME: DATA}})


@pytest.fixture
def images(tmp_path: Path) -> Path:
    (tmp_path / IMAGE).touch()
    return tmp_path


def subjects_of(kept: Records, seen: Seen, images: Path) -> list[str]:
    loss = Loss(LAST, kept, SEEN, frozenset({IMAGE}))
    return [finding.subject for finding in destroyed(loss, seen, images)]


@pytest.mark.parametrize("kept", [LAST, NOTHING])
def test_what_stayed_is_well_whether_or_not_its_records_are_lost(images: Path, kept: Records) -> None:
    assert subjects_of(kept, SEEN, images) == []


@pytest.mark.parametrize(
    ("subject", "changes"),
    [
        (f"instance {GUEST}", {"domains": {}}),
        (f"instance {GUEST}", {"domains": {GUEST: ("b", DOMAIN)}}),
        (f"instance {GUEST}", {"domains": {GUEST: ("a", DOMAIN | {"power": 4})}}),
        (f"instance {GUEST}", {"domains": {GUEST: ("a", DOMAIN | {"volumes": []})}}),
        (f"instance {GUEST}", {"domains": {GUEST: ("a", DOMAIN | {"interfaces": []})}}),
        (f"volume {VOLUME}", {"pools": {"p": {}}}),
        (f"volume {VOLUME}", {"pools": {"p": {VOLUME: {**DATA, "size": 1}}}}),
        (f"snapshot {SNAPSHOT}", {"pools": {"p": {VOLUME: {**DATA, "snapshots": {}}}}}),
    ],
    ids=["removed", "elsewhere", "stopped", "without its disk", "without its interface", "data", "smaller", "snapshot"],
)
def test_what_is_gone_is_found(images: Path, subject: str, changes: dict[str, Any]) -> None:
    assert subjects_of(NOTHING, replace(SEEN, **changes), images) == [subject]


def test_data_of_which_the_guest_has_gone_over_to_the_new_may_go(images: Path) -> None:
    last, client = replace(LAST, moving={VOLUME: IMAGE}), {"clients": [{"attachment_id": DISK}]}
    loss = Loss(last, NOTHING, SEEN, frozenset())
    assert not list(destroyed(loss, replace(SEEN, pools={"p": {}, "q": {IMAGE: client}}), images))
    assert [each.subject for each in destroyed(loss, replace(SEEN, pools={"p": {}}), images)] == [f"volume {VOLUME}"]


def test_nobody_removes_by_hand_what_a_guest_of_the_records_has_open() -> None:
    data = {**DATA, "clients": [{"attachment_id": DISK}]}
    seen = replace(SEEN, pools={"p": {VOLUME: data, IMAGE: DATA}})
    assert set(with_used(replace(NOTHING, servers=LAST.servers), seen).volumes) == {VOLUME}
    assert set(with_used(NOTHING, seen).volumes) == set()


def test_a_file_of_an_image_that_is_gone_is_found(tmp_path: Path) -> None:
    assert subjects_of(NOTHING, SEEN, tmp_path) == [f"image {IMAGE}"]


def test_an_interface_that_was_being_taken_out_may_go(images: Path) -> None:
    kept = replace(LAST, leaving=frozenset({MAC}))
    assert subjects_of(kept, replace(SEEN, domains={GUEST: ("a", DOMAIN | {"interfaces": []})}), images) == []


def test_what_the_records_that_are_back_end_may_go(images: Path) -> None:
    kept = replace(LAST, servers={GUEST: Server("active", "deleting", "a")}, volumes={VOLUME: "deleting"})
    assert subjects_of(kept, replace(SEEN, domains={}, pools={"p": {}}), images) == []
