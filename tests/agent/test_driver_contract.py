"""The fake driver keeps the contract of all drivers, and what only a fake promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.power import PowerState
from compute_agent.virt.errors import ImageUnacceptableError, RetryableHostError
from compute_agent.virt.passing_on import PassingOn
from tests.agent.cast import make_spec
from tests.agent.driver_contract import DriverContract, until
from tests.agent.watched_driver import WatchedDriver


@pytest.fixture
def spec() -> InstanceSpec:
    return make_spec()


@pytest.fixture
def base() -> None:
    return None


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def driver(tmp_path: Path) -> WatchedDriver:
    driver = WatchedDriver(tmp_path)
    driver.init_host()
    return driver


class TestFakeDriver(DriverContract):
    """The same promises as for real guests."""


class TestFakeDriverInMemory(DriverContract):
    @pytest.fixture
    def driver(self) -> WatchedDriver:
        driver = WatchedDriver()
        driver.init_host()
        return driver


def launch(driver: WatchedDriver, spec: InstanceSpec) -> None:
    DriverContract().launch(driver, spec, None)


def test_guests_survive_the_agent(driver: WatchedDriver, spec: InstanceSpec, tmp_path: Path) -> None:
    launch(driver, spec)
    driver.close()
    again = WatchedDriver(tmp_path)
    again.init_host()
    assert again.guests() == driver.guests()
    assert again.kept() == {"disks": {spec.uuid}, "seeds": {spec.uuid}, "domains": {spec.uuid}}


def test_a_journal_cut_short_loses_only_the_last_change(
    driver: WatchedDriver, spec: InstanceSpec, tmp_path: Path
) -> None:
    launch(driver, spec)
    with (tmp_path / "fake-hypervisor.jsonl").open("ab") as journal:
        journal.write(b'{"uuid":"' + spec.uuid.encode())
    again = WatchedDriver(tmp_path)
    again.init_host()
    assert [guest.power_state for guest in again.guests()] == [PowerState.RUNNING]


def test_the_journal_stays_small(driver: WatchedDriver, spec: InstanceSpec, tmp_path: Path) -> None:
    launch(driver, spec)
    for _ in range(2_600):
        driver.stop(spec.uuid, 1)
        driver._state.guests[spec.uuid].boots.clear()
        driver.start(spec.uuid)
    assert (tmp_path / "fake-hypervisor.jsonl").read_bytes().count(b"\n") < 5_000


def test_a_full_host_refuses_a_disk(spec: InstanceSpec) -> None:
    driver = WatchedDriver(disk_gb=1)
    driver.init_host()
    launch(driver, spec)
    with pytest.raises(RetryableHostError):
        driver.create_disk(make_spec(number=2), None)


def test_an_image_larger_than_the_flavor_is_refused(driver: WatchedDriver) -> None:
    with pytest.raises(ImageUnacceptableError):
        driver.create_disk(make_spec(root_gb=1, min_disk=2), None)


def test_the_console_shows_name_and_address_and_never_changes(driver: WatchedDriver, spec: InstanceSpec) -> None:
    launch(driver, spec)

    def text() -> str:
        return driver.console_output(spec.uuid, 0, 100_000).data.decode()

    until(lambda: "=== Novella guest: web-1 10.20.0.5/24 ===" in text(), "the banner")
    seen = text()
    driver.stop(spec.uuid, 1)
    driver.start(spec.uuid)
    assert text().startswith(seen)
    assert text().count("SeaBIOS") == 2


@pytest.mark.parametrize(("step", "kind"), [("no_such_step", "retryable"), ("create_disk", "sometimes")])
def test_an_unknown_fault_is_refused(step: str, kind: str) -> None:
    with pytest.raises(ValueError, match="step"):
        WatchedDriver(fail_at=step, kind=kind)


def test_a_driver_that_passes_everything_on_leaves_nothing_out() -> None:
    assert PassingOn.__abstractmethods__ == frozenset()
