"""Reports become blocks of three resolutions, sums for projects and the cloud, and end after their time."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

import pytest

from provisioning.hosts.models import Host
from provisioning.measures import collect, condensing, selectors
from provisioning.measures.models import Block, Rejection, Report
from provisioning.measures.resolutions import COARSE, DAY, FINE, HOUR, MIDDLE, SPANS
from provisioning.measures.selectors import Series
from tests.measures.conftest import BEGAN, Lab, guest, work


def known(series: Series) -> list[float]:
    return [round(value, 2) for value in series.means if value is not None]


def test_a_minute_is_collected_once_it_has_ended(lab: Lab) -> None:
    end = lab.minutes(2)
    collect.collect(end - 60 + collect.LATE - 1)
    assert not Block.objects.exists()
    collect.collect(end + collect.LATE)
    assert not Report.objects.exists()
    assert set(Block.objects.values_list("subject_id", "resolution")) == {
        (subject, FINE.seconds) for subject in (lab.host.id, lab.server.id, lab.server.project_id, selectors.CLOUD)
    }


def test_samples_show_before_they_are_collected(lab: Lab, at: Any) -> None:
    at(lab.minutes(1))
    result = selectors.of_server(lab.server)
    assert known(result.series["cpu"]) == [0.5] * 6
    assert known(selectors.of_host(lab.host.id).series["load"]) == [0.7] * 6
    assert result.series["disk_read"].empty


@pytest.mark.both_databases("locks")
def test_each_span_has_average_and_maximum(lab: Lab, at: Any) -> None:
    lab.minutes(9, cpu=0.2)
    end = lab.minutes(1, cpu=1.2, first=9)
    work(end + 200)
    at(end + 1)
    fine, middle, coarse = (selectors.of_server(lab.server, span).series["cpu"] for span in SPANS.values())
    assert known(fine) == [0.2] * 54 + [1.2] * 6
    assert known(middle) == [0.2] * 9 + [1.2]
    assert known(coarse) == [0.3]
    assert max(value for value in coarse.maximums if value) == pytest.approx(1.2, rel=0.001)


def test_a_block_that_is_not_condensed_yet_is_in_the_longer_spans(lab: Lab, at: Any) -> None:
    end = lab.minutes(3)
    work(end + collect.LATE)
    at(end)
    assert known(selectors.of_server(lab.server, SPANS["24h"]).series["cpu"]) == [0.5] * 3
    assert known(selectors.of_server(lab.server, SPANS["30d"]).series["cpu"]) == [0.5]


def test_points_are_put_together(lab: Lab, at: Any) -> None:
    at(lab.minutes(2, cpu=0.4))
    result = selectors.of_server(lab.server, points=60)
    assert (result.step, len(result.series["cpu"].means)) == (60, 60)
    assert set(known(result.series["cpu"])) == {0.4}


def test_projects_and_the_cloud_are_sums(lab: Lab, at: Any) -> None:
    end = lab.minutes(1, cpu=0.5)
    for second in (5, 25):
        lab.send(lab.other, BEGAN + second, cpu=2.0)
    collect.collect(end + collect.LATE)
    at(end)
    assert set(known(selectors.of_cloud().series["cpu"])) == {2.5}, "a missing sample is no dip"
    assert set(known(selectors.of_project(lab.server.project_id).series["cpu"])) == {0.5}


def test_a_host_reports_only_its_own_servers(lab: Lab, at: Any) -> None:
    foreign = guest(lab.server.id, 1.0)
    lab.send(lab.other, BEGAN + 5, [foreign, guest(uuid.uuid4(), 1.0)])
    collect.collect(BEGAN + 60 + collect.LATE)
    assert set(Block.objects.values_list("subject_id", flat=True)) == {lab.other.id, selectors.CLOUD}
    at(BEGAN + 60)
    assert selectors.of_server(lab.server).empty


@pytest.mark.both_databases("constraints")
def test_a_server_uses_no_more_than_its_host_has(lab: Lab, at: Any) -> None:
    Host.objects.update(vcpus_total=8, memory_mb_total=1024)
    lab.send(lab.host, BEGAN + 5, [guest(lab.server.id, 50.0, memory=900.0)], cpu=9.0, memory=9e6)
    collect.collect(BEGAN + 60 + collect.LATE)
    at(BEGAN + 60)
    series = selectors.of_server(lab.server).series
    assert (series["cpu"].empty, known(series["memory"])) == (True, [pytest.approx(900, rel=0.001)])
    of_host = selectors.of_host(lab.host.id).series
    assert (of_host["memory"].empty, known(of_host["cpu"])) == (True, [9.0])
    assert Rejection.objects.filter(host_id=lab.host.id).exists()


def test_a_worker_that_dies_anywhere_repeats_its_minute(lab: Lab, at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    end = lab.minutes(10)
    save, left = collect.save, [0]

    def dying(blocks: Iterable[Block]) -> None:
        save(blocks)
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    for module in (collect, condensing):
        monkeypatch.setattr(module, "save", dying)
    deaths = 0
    for deaths in range(60):
        left[0] = deaths % 5 + 1
        try:
            work(end + 200)
            break
        except KeyboardInterrupt:
            continue
    assert deaths > 5
    at(end)
    assert [known(selectors.of_server(lab.server, span).series["cpu"]) for span in SPANS.values()] == [
        [0.5] * 60,
        [0.5] * 10,
        [0.5],
    ]


def test_reports_of_a_worker_that_was_away_are_collected(lab: Lab, at: Any) -> None:
    end = lab.minutes(12)
    work(end + 200)
    assert not Report.objects.exists()
    at(end)
    assert known(selectors.of_server(lab.server, SPANS["24h"]).series["cpu"]) == [0.5] * 12


def test_blocks_end_after_their_time(lab: Lab) -> None:
    end = lab.minutes(10)
    work(end + 200)

    def kept(now: float) -> set[int]:
        condensing.delete_old(now)
        return set(Block.objects.filter(subject_id=lab.server.id).values_list("resolution", flat=True))

    assert kept(end + HOUR - 10) == {FINE.seconds, MIDDLE.seconds, COARSE.seconds}
    assert kept(end + HOUR + FINE.block) == {MIDDLE.seconds, COARSE.seconds}
    assert kept(end + DAY + MIDDLE.block) == {COARSE.seconds}
    assert kept(end + 30 * DAY + COARSE.block) == set()


def test_lines_of_many_servers_are_one_query(lab: Lab, at: Any, django_assert_num_queries: Any) -> None:
    end = lab.minutes(6)
    work(end + collect.LATE)
    at(end)
    with django_assert_num_queries(1):
        lines = selectors.first_lines([lab.server.id, uuid.uuid4()], width=10)
    assert list(lines) == [lab.server.id]
    assert [None if value is None else round(value, 2) for value in lines[lab.server.id]] == [None] * 10 + [0.5] * 2
