"""The command line: settings from options and environment, sentences for what is wrong, exit codes, simulated hosts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from compute_agent.contract.messages import ResourceAudit
from compute_agent.network.kernel import namespace
from compute_agent.start.options import parse
from tests.agent.cast import build, make_spec
from tests.agent.small_portal import small_portal

CHECKOUT = Path(__file__).resolve().parents[2]


@contextlib.asynccontextmanager
async def agent(*options: str, **environ: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "compute_agent",
        *options,
        cwd=CHECKOUT,
        env={"PATH": os.environ["PATH"], **environ},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def run(*options: str, **environ: str) -> tuple[int | None, str]:
    """Run the agent to its end; return its exit code and what it logged."""
    async with agent(*options, **environ) as process:
        _, output = await asyncio.wait_for(process.communicate(), 60)
        return process.returncode, output.decode()


def test_options_win_over_the_environment(tmp_path: Path) -> None:
    environ = {"NOVELLA_AGENT_HOST": "from-environment", "NOVELLA_AGENT_STATE_DIR": str(tmp_path)}
    (settings,) = parse([], environ).hosts
    assert (settings.host, settings.state_dir, settings.driver) == ("from-environment", tmp_path, "libvirt")
    assert settings.durable
    (settings,) = parse(["--host", "given", "--portal", "https://cloud.example/", "--no-uplink"], environ).hosts
    assert (settings.host, settings.portal_url, settings.uplink) == ("given", "https://cloud.example", False)


def test_networks_that_guests_do_not_reach(tmp_path: Path) -> None:
    environ = {"NOVELLA_AGENT_STATE_DIR": str(tmp_path)}
    (settings,) = parse([], environ).hosts
    assert settings.blocked_networks == ("link-local", "connected")
    environ["NOVELLA_AGENT_BLOCKED_NETWORKS"] = "link-local, private,203.0.113.0/24"
    (settings,) = parse(["--reachable-networks", "10.0.0.53/32"], environ).hosts
    assert settings.blocked_networks == ("link-local", "private", "203.0.113.0/24")
    assert settings.reachable_networks == ("10.0.0.53/32",)


def test_ways_to_other_hosts_and_to_physical_networks(tmp_path: Path) -> None:
    environ = {"NOVELLA_AGENT_STATE_DIR": str(tmp_path)}
    (settings,) = parse([], environ).hosts
    assert (settings.underlay_address, settings.physical_networks) == ("", {})
    assert settings.external_interface == ""
    environ |= {"NOVELLA_AGENT_EXTERNAL_INTERFACE": "eth0"}
    environ |= {"NOVELLA_AGENT_UNDERLAY_ADDRESS": "192.0.2.7", "NOVELLA_AGENT_PHYSICAL_NETWORKS": "lan:br0, dmz:eth1"}
    (settings,) = parse([], environ).hosts
    assert settings.underlay_address == "192.0.2.7"
    assert settings.physical_networks == {"lan": "br0", "dmz": "eth1"}
    assert settings.external_interface == "eth0"


def test_simulated_hosts_have_names_and_folders_of_their_own(tmp_path: Path) -> None:
    options = parse(
        ["--host", "sim", "--state-dir", str(tmp_path), "--simulate", "2", "--fake-capacity", "8:4096:50"],
        {"NOVELLA_AGENT_FAKE_TRAITS": "COMPUTE_FIRMWARE_UEFI, CUSTOM_FAST", "NOVELLA_AGENT_FAKE_MOVE_SECONDS": "2"},
    )
    assert [(one.host, one.state_dir.name, one.driver) for one in options.hosts] == [
        ("sim-1", "sim-1", "fake"),
        ("sim-2", "sim-2", "fake"),
    ]
    assert {one.fake_capacity for one in options.hosts} == {(8, 4096, 50)}
    assert {one.fake_traits for one in options.hosts} == {("COMPUTE_FIRMWARE_UEFI", "CUSTOM_FAST")}
    assert {one.fake_move_seconds for one in options.hosts} == {2}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ([], "--state-dir is missing"),
        (["--host", "a b"], "is not a name"),
        (["--blocked-networks", "10.0.0.1/8"], "neither a network"),
        (["--reachable-networks", "private,everything"], "neither a network"),
        (["--underlay-address", "host-1"], "is not an IP address"),
        (["--external-interface", "the first"], "--external-interface"),
        (["--volume-ports", "2000-1999"], "is not FIRST-LAST"),
        (["--volume-ports", "80-90"], "is not FIRST-LAST"),
        (["--root-disks", "vms"], "is not a pool of"),
        (["--root-disks", "local"], "require a pool of Ceph"),
        (["--physical-networks", "lan"], "is not NAME:INTERFACE"),
        (["--portal", "ftp://x"], "is not an address like"),
        (["--portal", "http://cloud.example:8000"], "another machine without TLS"),
        (["--portal", "http://192.0.2.7"], "another machine without TLS"),
        (["--driver", "xen"], "is neither libvirt nor fake"),
        (["--driver", "libvirt:define_domain"], "is neither libvirt nor fake"),
        (["--driver", "fake:coffee"], "there is no step 'coffee'"),
        (["--driver", "fake:start_guest:maybe"], "a step fails retryable, fatal, hang"),
        (["--workers", "0"], "is not a number from 1 to 64"),
        (["--simulate", "many"], "is not a number from 1 to 1000"),
        (["--fake-capacity", "1:2"], "is not VCPUS:MIB:GIB"),
        (["--fake-traits", "uefi"], "is not a trait"),
        (["--fake-move-seconds", "1.5"], "is not a number from 0 to 3600"),
        (["--netns", "a/b"], "is not a name"),
        (["--netns", "a", "--machine-netns", "b/c"], "is not a name"),
        (["--machine-netns", "a"], "--machine-netns requires --netns"),
    ],
)
def test_a_wrong_setting_is_named(
    given: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = ["--state-dir", str(tmp_path)] if given else []
    with pytest.raises(SystemExit) as stop:
        parse([*folder, *given], {})
    assert stop.value.code == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    "portal", ["http://localhost:8000", "http://127.3.2.1", "http://[::1]:8000", "https://cloud.example"]
)
def test_plain_http_is_for_the_same_machine(portal: str, tmp_path: Path) -> None:
    (settings,) = parse(["--state-dir", str(tmp_path), "--portal", portal], {}).hosts
    assert settings.portal_url == portal
    remote = ["--state-dir", str(tmp_path), "--portal", "http://cloud.example"]
    for given, environ in (([*remote, "--plain-http"], {}), (remote, {"NOVELLA_AGENT_PLAIN_HTTP": "1"})):
        (settings,) = parse(given, environ).hosts
        assert settings.portal_url == "http://cloud.example"


@pytest.mark.slow
async def test_simulated_hosts_share_one_process(tmp_path: Path) -> None:
    names = ["sim-1", "sim-2", "sim-3"]
    tokens = {name: f"token-of-{name}" for name in names}
    (tmp_path / "tokens.json").write_text(json.dumps(tokens))
    options = ["--host", "sim", "--simulate", "3", "--state-dir", str(tmp_path / "hosts"), "--workers", "2"]
    async with small_portal(tokens=tokens) as portal:
        options += ["--portal", portal.url, "--join-token-file", str(tmp_path / "tokens.json")]
        async with agent(*options) as process:
            await portal.connected(3)
            commands = [build(make_spec(number=number)) for number in range(1, 13)]
            for number, command in enumerate(commands):
                await portal.say(command, number % 3)
            ids = {command.id for command in commands}
            await portal.until(
                lambda: {event.command_id for event in portal.events() if event.kind == "finished"} == ids
            )
            await portal.until(lambda: sorted({audit.hypervisor_hostname for audit in portal.heard(ResourceAudit)}))
            second, output = await run(*options)
            assert (second, "Another agent works in" in output) == (3, True)
            process.send_signal(signal.SIGTERM)
            _, log = await asyncio.wait_for(process.communicate(), 60)
            assert process.returncode == 0
            assert not [token for token in tokens.values() if token in log.decode()]
    assert sorted(path.name for path in (tmp_path / "hosts").iterdir()) == names
    code, _ = await run("clean", "--host", "sim", "--simulate", "3", "--state-dir", str(tmp_path / "hosts"))
    assert code == 0
    assert list((tmp_path / "hosts").iterdir()) == []


@pytest.mark.slow
async def test_clean_removes_one_simulated_host_without_its_driver(tmp_path: Path) -> None:
    state_dir = tmp_path / "host"
    async with small_portal(tokens={"host": "join"}) as portal:
        options = ["--host", "host", "--driver", "fake", "--state-dir", str(state_dir), "--portal", portal.url]
        async with agent(*options, NOVELLA_AGENT_JOIN_TOKEN="join") as process:
            await portal.connected()
            code, output = await run("clean", "--state-dir", str(state_dir))
            assert (code, "stop it first" in output) == (3, True)
            process.send_signal(signal.SIGTERM)
            await process.communicate()
    assert (await run("clean", "--state-dir", str(state_dir)))[0] == 0
    assert not state_dir.exists()
    assert (await run("clean", "--state-dir", str(state_dir)))[0] == 0


@pytest.mark.slow
async def test_clean_leaves_a_folder_alone_that_is_not_an_agents(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("keep me")
    code, output = await run("clean", "--state-dir", str(tmp_path))
    assert code == 2
    assert "is not the state folder of an agent" in output
    assert (tmp_path / "letter.txt").exists()


@pytest.mark.libvirt
async def test_a_machine_that_nobody_has_made_is_named(tmp_path: Path) -> None:
    names = [f"nvm{os.getpid()}-{end}" for end in ("guests", "machine")]
    options = ["--netns", names[0], "--machine-netns", names[1], "--state-dir", str(tmp_path / "host")]
    code, output = await run(*options)
    assert code == 4
    assert f"There is no network namespace {names[1]}" in output
    assert not [name for name in names if namespace.listed(name)]


@pytest.mark.slow
async def test_a_new_host_without_a_token_ends_with_a_sentence(tmp_path: Path) -> None:
    code, output = await run("--host", "new", "--driver", "fake", "--state-dir", str(tmp_path / "s"))
    assert code == 2
    assert "The new host 'new' has no join token" in output
    assert "Traceback" not in output
