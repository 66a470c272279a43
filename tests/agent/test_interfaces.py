"""Interfaces that come and go on a host: the agent may die at every step, and what fails leaves the guest as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import InstanceSpec, PortRef
from compute_agent.contract.commands import (
    AttachInterfaceRequest,
    CommandBody,
    DetachInterfaceRequest,
    RefreshPortsRequest,
    ResizeRequest,
)
from compute_agent.contract.messages import Command
from compute_agent.network.fake import FakeNetwork
from compute_agent.virt.errors import RetryableHostError
from tests.agent.cast import Gate, Stage, build, destroy, make_command, make_spec, make_stage, on_stage, power
from tests.agent.test_restart import killed_at
from tests.agent.watched_driver import WatchedDriver

ATTACHING = ("plug_network", "apply_firewall", "attach_interface")
DETACHING = ("detach_interface", "unplug_network")


def second() -> PortRef:
    """An interface that no guest has yet."""
    return make_spec(number=2).ports[0]


def wider(spec: InstanceSpec) -> InstanceSpec:
    return replace(spec, ports=[*spec.ports, second()])


def attach(spec: InstanceSpec) -> Command:
    return make_command(AttachInterfaceRequest(instance=wider(spec), port=second()), spec.uuid)


def detach(spec: InstanceSpec) -> Command:
    return make_command(DetachInterfaceRequest(instance=spec, port=second()), spec.uuid)


def plugged(stage: Stage, spec: InstanceSpec) -> tuple[list[str], list[str]]:
    """What the hypervisor and the network have: hardware addresses and ports."""
    assert isinstance(stage.driver, WatchedDriver)
    assert isinstance(stage.network, FakeNetwork)
    return [interface.mac_address for interface in stage.driver.diagnostics(spec.uuid).nics], stage.network.interfaces[
        spec.uuid
    ]


def of(spec: InstanceSpec) -> tuple[list[str], list[str]]:
    return [port.mac_address for port in spec.ports], [port.id for port in spec.ports]


class Clumsy(WatchedDriver):
    """A hypervisor that fails at interfaces."""

    def __init__(self, state_dir: Path, *methods: str) -> None:
        super().__init__(state_dir)
        self._methods = methods

    def attach_interface(self, spec: InstanceSpec, port: PortRef) -> None:
        if "attach_late" in self._methods:
            super().attach_interface(spec, port)
        if "attach" in self._methods or "attach_late" in self._methods:
            raise RetryableHostError("No room on the bus.")
        super().attach_interface(spec, port)

    def detach_interface(self, spec: InstanceSpec, port: PortRef) -> None:
        if "detach" in self._methods:
            raise RetryableHostError("The guest does not let go.")
        super().detach_interface(spec, port)


async def test_an_interface_comes_and_goes(tmp_path: Path) -> None:
    spec = make_spec()
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
        command = attach(spec)
        end = await stage.do(command)
        assert (end.kind, end.power_state, stage.steps(command)) == ("finished", 1, list(ATTACHING))
        assert plugged(stage, spec) == of(wider(spec))
        assert (await stage.do(attach(spec))).kind == "finished"
        assert plugged(stage, spec) == of(wider(spec))
        for _ in range(2):
            command = detach(spec)
            assert (await stage.do(command)).kind == "finished"
            assert stage.steps(command) == list(DETACHING)
            assert plugged(stage, spec) == of(spec)


@pytest.mark.parametrize("kind", ["refresh", "attach", "detach", "resize"])
async def test_only_the_command_that_takes_an_interface_out_cuts_it_off(tmp_path: Path, kind: str) -> None:
    """Records that have lost the interface give commands without it."""
    spec, third = make_spec(), make_spec(number=3).ports[0]
    more = replace(spec, ports=[*spec.ports, third])
    bodies: dict[str, CommandBody] = {
        "refresh": RefreshPortsRequest(instance=spec),
        "attach": AttachInterfaceRequest(instance=more, port=third),
        "detach": DetachInterfaceRequest(instance=replace(spec, ports=[]), port=spec.ports[0]),
        "resize": ResizeRequest(instance=spec, old_flavor=spec.flavor, start=True),
    }
    left = {"attach": [*spec.ports, third, second()], "detach": [second()]}.get(kind, [*spec.ports, second()])
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
        await stage.do(attach(spec))
        assert (await stage.do(make_command(bodies[kind], spec.uuid))).kind == "finished"
        macs, ports = plugged(stage, spec)
        assert (sorted(macs), ports) == (sorted(port.mac_address for port in left), [port.id for port in left])
        for guest in [*await stage.host.guests(), *(await stage.host.audit("")).guests]:
            assert {each.port_id for each in guest.interfaces or ()} == set(ports)
        assert (await stage.do(detach(spec))).kind == "finished"
        assert second().id not in plugged(stage, spec)[1]


async def test_the_next_process_knows_the_interfaces(tmp_path: Path) -> None:
    spec = make_spec()
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
        await stage.do(attach(spec))
    async with on_stage(make_stage(tmp_path)) as stage:
        assert plugged(stage, spec) == of(wider(spec))
        await stage.do(detach(spec))
    async with on_stage(make_stage(tmp_path)) as stage:
        assert plugged(stage, spec) == of(spec)


@pytest.mark.parametrize("step", ATTACHING)
async def test_an_attach_that_dies_goes_on_with_the_next_process(tmp_path: Path, step: str) -> None:
    spec = make_spec()
    command = attach(spec)
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
    async with killed_at(tmp_path, step) as stage:
        stage.host.accept(command)
    async with on_stage(make_stage(tmp_path)) as stage:
        assert (await stage.end_of(command)).kind == "finished"
        assert plugged(stage, spec) == of(wider(spec))


async def test_an_interface_is_filtered_before_its_command_goes_on(tmp_path: Path) -> None:
    spec = make_spec()
    command = attach(spec)
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
    async with killed_at(tmp_path, "attach_interface") as stage:
        stage.host.accept(command)
    gate = Gate("plug_network")
    async with on_stage(make_stage(tmp_path, after_step=gate)) as stage:
        assert isinstance(stage.network, FakeNetwork)
        assert stage.network.interfaces[spec.uuid] == of(wider(spec))[1]
        gate.open.set()
        assert (await stage.end_of(command)).kind == "finished"


@pytest.mark.parametrize("step", ATTACHING)
async def test_an_attach_that_dies_and_comes_back_too_late_is_undone(tmp_path: Path, step: str) -> None:
    spec = make_spec()
    command = attach(spec)
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
    async with killed_at(tmp_path, step) as stage:
        stage.host.accept(command)
    async with on_stage(make_stage(tmp_path), awaited=[]) as stage:
        end = await stage.end_of(command)
        assert (end.kind, end.error_code) == ("failed", "deadline_passed")
        assert plugged(stage, spec) == of(spec)


@pytest.mark.parametrize("step", DETACHING)
async def test_a_detach_that_dies_goes_on_with_the_next_process(tmp_path: Path, step: str) -> None:
    spec = make_spec()
    command = detach(spec)
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
        await stage.do(attach(spec))
    async with killed_at(tmp_path, step) as stage:
        stage.host.accept(command)
    async with on_stage(make_stage(tmp_path)) as stage:
        assert (await stage.end_of(command)).kind == "finished"
        assert plugged(stage, spec) == of(spec)


@pytest.mark.parametrize("how", ["attach", "attach_late"])
async def test_what_the_hypervisor_refuses_is_in_no_books(tmp_path: Path, how: str) -> None:
    spec = make_spec()
    async with on_stage(make_stage(tmp_path, driver=Clumsy(tmp_path, how))) as stage:
        await stage.do(build(spec))
        end = await stage.do(attach(spec))
        assert (end.kind, end.error_code, end.message) == ("failed", "host_failed", "No room on the bus.")
        assert plugged(stage, spec) == of(spec)


async def test_what_cannot_be_taken_back_is_reported(tmp_path: Path) -> None:
    spec = make_spec()
    async with on_stage(make_stage(tmp_path, driver=Clumsy(tmp_path, "attach_late", "detach"))) as stage:
        await stage.do(build(spec))
        end = await stage.do(attach(spec))
        assert (end.error_code, end.message) == (
            "not_taken_back",
            "No room on the bus. The interface could not be detached again.",
        )


async def test_a_guest_that_does_not_let_go_keeps_its_interface(tmp_path: Path) -> None:
    spec = make_spec()
    async with on_stage(make_stage(tmp_path, driver=Clumsy(tmp_path, "detach"))) as stage:
        await stage.do(build(spec))
        await stage.do(attach(spec))
        end = await stage.do(detach(spec))
        assert (end.kind, end.message) == ("failed", "The guest does not let go.")
        assert plugged(stage, spec) == of(wider(spec))


async def test_nothing_is_plugged_for_a_guest_that_is_not_here(tmp_path: Path) -> None:
    spec = make_spec()
    async with on_stage(make_stage(tmp_path)) as stage:
        refresh = make_command(RefreshPortsRequest(instance=spec), spec.uuid)
        for command in (attach(spec), refresh):
            assert (await stage.do(command)).error_code == "instance_not_found"
        assert (await stage.do(detach(spec))).kind == "failed"
        assert stage.is_clean()


async def test_a_delete_stops_an_attach_and_leaves_nothing(tmp_path: Path) -> None:
    spec = make_spec()
    gate = Gate("apply_firewall")
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
    async with on_stage(make_stage(tmp_path, after_step=gate)) as stage:
        command, end = attach(spec), destroy(spec.uuid, 2)
        stage.host.accept(command)
        await gate.until_reached()
        stage.host.accept(end)
        gate.open.set()
        assert (await stage.end_of(command)).error_code == "cancelled"
        assert (await stage.end_of(end)).kind == "finished"
        assert stage.is_clean()
        assert isinstance(stage.network, FakeNetwork)
        assert stage.network.interfaces == {}


async def test_commands_of_one_guest_keep_their_turn(tmp_path: Path) -> None:
    spec = make_spec()
    async with on_stage(make_stage(tmp_path)) as stage:
        commands = [build(spec), attach(spec), power(spec.uuid, "stop"), detach(spec)]
        for command in commands:
            stage.host.accept(command)
        await stage.end_of(commands[-1])
        ends = [event.command_id for event in stage.said if event.kind == "finished"]
        assert ends == [command.id for command in commands]
        assert plugged(stage, spec) == of(spec)


async def test_a_refresh_is_what_the_network_has(tmp_path: Path) -> None:
    spec = make_spec()
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(build(spec))
        await stage.do(make_command(RefreshPortsRequest(instance=wider(spec)), spec.uuid))
        assert isinstance(stage.network, FakeNetwork)
        assert stage.network.interfaces[spec.uuid] == of(wider(spec))[1]
