"""A host whose hypervisor or network takes its time."""

from __future__ import annotations

from pathlib import Path

import pytest

from compute_agent import host
from compute_agent.network.fake import FakeNetwork
from compute_agent.virt.errors import HypervisorUnavailableError, RetryableHostError
from tests.agent.cast import FlakyDriver, build, make_spec, make_stage, on_stage


async def test_a_host_starts_as_soon_as_its_means_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "START_PAUSE", 0.001)

    class LateNetwork(FakeNetwork):
        failures = 2

        def init_host(self) -> None:
            self.failures -= 1
            if self.failures >= 0:
                raise RetryableHostError("Not yet.")

    driver = FlakyDriver(tmp_path, "guests", HypervisorUnavailableError("Not yet."), failures=2)
    network = LateNetwork()
    async with on_stage(make_stage(tmp_path, driver=driver, network=network)) as stage:
        assert (driver.calls, network.failures) == (3, -1)
        assert (await stage.do(build(make_spec()))).kind == "finished"


async def test_a_network_that_can_look_after_itself_is_asked_to(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Mending(FakeNetwork):
        def check(self) -> list[str]:
            return ["DHCP of br-demo"]

    class Broken(FakeNetwork):
        def check(self) -> list[str]:
            raise RetryableHostError("No DHCP server.")

    async with on_stage(make_stage(tmp_path, network=Mending())) as stage:
        await stage.host.check()
    assert "repaired the network: DHCP of br-demo" in caplog.text
    async with on_stage(make_stage(tmp_path, network=Broken())) as stage:
        await stage.host.check()
    assert "the network could not be repaired: No DHCP server." in caplog.text
