"""Samples from hosts: bounded, plausible, one frame for each slot."""

from __future__ import annotations

import math
import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from compute_agent.contract.samples import GUEST_SERIES, MOST_GUESTS, GuestSample, Samples
from provisioning.measures import inbound
from provisioning.measures.codes import encode, mean, values
from provisioning.measures.collect import records
from provisioning.measures.models import Rejection, Report
from tests.measures.conftest import BEGAN, Lab, guest, of_host
from tests.support.tables import each_row


@pytest.mark.parametrize("value", [0.0, 0.004, 1.0, 63.9, 262_144.0, 1e9, 1e12])
def test_a_code_keeps_a_value_and_its_order(value: float) -> None:
    code = encode(value)
    assert values()[code] == pytest.approx(value, rel=0.001)
    assert 0 < code < encode(value * 1.01 + 0.001)


def test_a_missing_value_is_not_zero() -> None:
    assert mean([0, 0]) is None
    assert mean([encode(None), encode(2.0), encode(0.0)]) == pytest.approx(1.0, rel=0.001)


def test_frames_that_are_a_little_early_or_late_share_no_slot() -> None:
    inbox, late = inbound.Inbox(), [0.0, 0.4, -0.4, 3.0, -3.0, 0.0]
    slots = [inbox.due(BEGAN + 9.9 + 10 * at + by) for at, by in enumerate(late)]
    assert slots[0] is not None
    assert slots == list(range(slots[0], slots[0] + len(late)))


def test_a_flood_fills_one_slot_and_is_reported(lab: Lab) -> None:
    accepted = [lab.send(lab.host, BEGAN + 5 + at / 100) for at in range(500)]
    assert accepted.count(True) == 1
    lab.send(lab.host, BEGAN + 20)
    assert Report.objects.count() == 2
    assert "too early" in Rejection.objects.get(host_id=lab.host.id).reason


def test_reports_of_a_host_are_limited_without_a_worker(lab: Lab) -> None:
    for slot in (0, 1, inbound.PLACES, inbound.PLACES + 1, 2 * inbound.PLACES):
        inbound.receive(lab.host.id, slot, Samples(), inbound.Inbox(), BEGAN)
    assert Report.objects.count() == 2


@each_row(
    "samples, reason",
    [
        (Samples(guests=[guest(uuid.uuid4(), -1.0)]), "cpu"),
        (Samples(guests=[guest(uuid.uuid4(), math.nan)]), "cpu"),
        (Samples(guests=[guest(uuid.uuid4(), math.inf)]), "cpu"),
        (Samples(guests=[guest(uuid.uuid4(), network_in=1e300)]), "network_in"),
        (Samples(host=of_host(load=1e9)), "load"),
        (Samples(host=[1.0]), "number of values"),
        (Samples(guests=[GuestSample(instance_id=str(uuid.uuid4()), values=[1.0] * 50)]), "number of values"),
        (Samples(guests=[guest("'; DROP TABLE")]), "id"),
        (Samples(guests=[guest(uuid.UUID(int=7)), guest(uuid.UUID(int=7))]), "id"),
        (Samples(guests=[guest(uuid.UUID(int=at)) for at in range(MOST_GUESTS + 5)]), str(MOST_GUESTS)),
    ],
)
def test_implausible_parts_are_left_out_and_reported(lab: Lab, samples: Samples, reason: str) -> None:
    inbound.receive(lab.host.id, 7, samples, inbound.Inbox(), BEGAN)
    kept = list(records(bytes(Report.objects.get().data)))
    assert len(kept) <= MOST_GUESTS
    assert all(point == bytes(2 * len(GUEST_SERIES)) for _, point in kept)
    assert reason in Rejection.objects.get().reason


def test_a_frame_costs_one_statement(lab: Lab) -> None:
    frame = Samples(guests=[guest(uuid.uuid4(), 1.0) for _ in range(50)])
    with CaptureQueriesContext(connection) as queries:
        inbound.receive(lab.host.id, 7, frame, inbound.Inbox(), BEGAN)
    assert len([each for each in queries if "measures_" in each["sql"]]) == 1
