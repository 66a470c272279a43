"""The Python part of bin/up: prepares the data folder, runs the services, reports when launches are possible.

bin/up has checked the options and the machine; it passes the results as arguments.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from up import accounts, compiled, credentials, health, run_as
from up.clean import clean
from up.data_folder import DataFolder, DataFolderError
from up.outside import SMALLEST, Network, checked_range
from up.places import MOST_HOSTS, Places
from up.prepare import Preparation, PreparationError, Progress
from up.programs import BOOTSTRAP, CHECKOUT, JOIN_TOKENS, STOP_ORDER, Hosts, programs
from up.run_as import RunAs, RunAsError
from up.supervisor import Supervisor

READY_WITHIN, READY_PER_HOST = 180.0, 6.0
"""Seconds within which the services must be ready on a slow machine, and additional seconds for each host."""
MOST_ENDS = 5
"""Number of times after which a service that keeps ending stops bin/up, if the cloud is not ready yet."""
ASK_EVERY = 10.0
"""Seconds between two health checks of a cloud that is ready."""
NO_WORKER_FOR = 90.0
"""Seconds without a live queue worker, or without an answer from the web, after which the service is restarted."""
GUEST = "first-guest"
"""The name of the guest in the printed commands."""
CLIENT = Path(sys.executable).parent / "openstack"
"""The absolute path of the client, because the printed command is used in another terminal, in any folder."""


class Watch:
    """Asks the portal for its health, and restarts a service that runs but does nothing."""

    def __init__(self, supervisor: Supervisor, port: int) -> None:
        self._supervisor = supervisor
        self._port = port
        self._next = 0.0
        self._worker_seen = self._web_seen = time.monotonic()

    def look(self) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + ASK_EVERY
        found = health.ask(self._port)
        if found is not None:
            self._web_seen = now
            if found.workers:
                self._worker_seen = now
        if now - self._web_seen > NO_WORKER_FOR:
            self._supervisor.restart("web", f"no answer for {NO_WORKER_FOR:.0f} s")
            self._web_seen = self._worker_seen = now
        elif now - self._worker_seen > NO_WORKER_FOR:
            self._supervisor.restart("worker", f"no heartbeat for {NO_WORKER_FOR:.0f} s")
            self._worker_seen = now


def wait_until_ready(supervisor: Supervisor, port: int, hosts: int) -> bool:
    """Run the services until launching works. Returns False if a service keeps ending, time is up, or a
    signal arrives.
    """
    deadline = time.monotonic() + ready_within(hosts)
    while not supervisor.stopping and time.monotonic() < deadline:
        supervisor.step(0.1)
        if any(service.ends >= MOST_ENDS for service in supervisor.services):
            return False
        found = health.ask(port)
        if found is not None and found.ok and found.workers and found.hosts_up >= hosts:
            return True
    return False


def ready_within(hosts: int) -> float:
    return READY_WITHIN + READY_PER_HOST * hosts


def complaint(supervisor: Supervisor, port: int, hosts: int) -> str:
    """Return the reason why the cloud is not ready, as part of a sentence."""
    for service in supervisor.services:
        if service.ends >= MOST_ENDS:
            return f"{service.name} keeps ending; the last line of its log is: {service.last_line}"
    found = health.ask(port)
    if found is None:
        return f"web does not answer after {ready_within(hosts):.0f} s"
    return f"after {ready_within(hosts):.0f} s there are {found.workers} workers and {found.hosts_up} hosts"


def closing_lines(data: DataFolder, port: int, hosts: Hosts, seeded: dict[str, Any]) -> str:
    """Return the last lines of the output: address, passwords, and a command that works as printed."""
    users = credentials.sign_ins(data, seeded["passwords"])
    names = " and ".join(user.name for user in users)
    lines = ["", f"  Address    http://127.0.0.1:{port}/"]
    for user in users:
        lines.append(f"  Sign in    {user.name} / {user.password or '(the password you set)'}")
    where = ", ".join(hosts.names) + (" (simulated)" if hosts.simulated else "")
    clouds = shlex.quote(str(data.path / "clouds.yaml"))
    lines.append(f"  Hosts      {where}")
    if hosts.switched:
        lines.append(f"  Outside    ip netns exec {Places(data.netns).world} …: commands in the external network")
    lines += [
        f"  Clients    {data.path}/clouds.yaml has the clouds {names}",
        f"  Logs       {data.path}/log/",
        "",
        "  Launch a guest from the command line:",
        f"  export OS_CLIENT_CONFIG_FILE={clouds} OS_CLOUD=demo; alias openstack={shlex.quote(str(CLIENT))}",
        f"  {shlex.join(_launch(seeded))}",
        *_ways_in(seeded, hosts, Places(data.netns)),
        "",
        "  Ctrl-C stops the services; the guests keep running.",
        "",
        f"Novella is ready: http://127.0.0.1:{port}/",
    ]
    return "\n".join(lines)


def _launch(seeded: dict[str, Any]) -> list[str]:
    image, flavor, network = (str(seeded[kind]["name"]) for kind in ("image", "flavor", "network"))
    words = ["--image", image, "--flavor", flavor, "--network", network, "--wait", GUEST]
    return ["openstack", "server", "create", *words]


def _ways_in(seeded: dict[str, Any], hosts: Hosts, places: Places) -> list[str]:
    """Return lines with commands that give access to the guest; none if there is no external network or no
    real guest.
    """
    if hosts.simulated or not seeded["external"]:
        return []
    enter = f"ip netns exec {places.world} " if hosts.switched else ""
    port = f"$(openstack port list --server {GUEST} -f value -c ID)"
    return [
        "",
        "  With a floating IP, plain ssh reaches it (with the adminPass above):",
        f"  openstack floating ip create --port {port} {shlex.quote(seeded['external']['name'])}",
        f"  {enter}ssh root@ADDRESS",
    ]


def portal_account(data: DataFolder, say: Callable[[str], None]) -> RunAs:
    """Return the account of web and workers, after changing the owner of the portal's folder to it.

    It is the caller's account if there is no other usable one. Raises DataFolderError.
    """
    chosen = RunAs()
    name = run_as.wanted()
    if name:
        try:
            user = accounts.ensure(name)
            data.hand_over(user.pw_uid, user.pw_gid)
            chosen = run_as.of(user, data.portal)
            compiled.ensure()
            chosen.probe()
        except (accounts.AccountError, RunAsError) as error:
            say(f"Web and workers run as root: {name} is of no use for them ({error}).")
            chosen = RunAs()
    if chosen.uid is None and os.geteuid() == 0:
        data.hand_over(0, 0)
    return chosen


def run(data: DataFolder, port: int, hosts: Hosts, progress: Progress, external_range: Network | None) -> int:
    data.bring_up_to_date()
    portal = portal_account(data, progress.say)
    preparation = Preparation(data, port, hosts, progress, portal, external_range)
    preparation.run()
    seeded = data.read_json(BOOTSTRAP)
    auth_url = f"http://127.0.0.1:{port}/identity/v3"
    credentials.write(data, auth_url, credentials.sign_ins(data, seeded["passwords"]))
    data.write_json(JOIN_TOKENS, seeded["join_tokens"])
    progress.begin("Services")
    preparation.switch()
    say = progress.say
    if not hosts.simulated:
        try:
            accounts.ensure_agents()
        except accounts.AccountError as error:
            say(f"Guests run as root: {error}.")
    supervisor = Supervisor(data, programs(data, port, hosts, portal), say)
    supervisor.prepare()
    ready = wait_until_ready(supervisor, port, len(hosts.names))
    if ready:
        progress.done()
        supervisor.show_warnings = True
        say(closing_lines(data, port, hosts, seeded))
        watch = Watch(supervisor, port)
        while not supervisor.stopping:
            supervisor.step()
            watch.look()
    elif not supervisor.stopping:
        why = complaint(supervisor, port, len(hosts.names))
        say(f"bin/up: launching does not work: {why}; {data.path}/log/ has more.")
    say("\nStopping the services …")
    asked = supervisor.stopping
    supervisor.stop(STOP_ORDER)
    guests = "simulated guests are kept" if hosts.simulated else "the guests keep running"
    say(f"Novella has stopped; {guests}. bin/up reconnects to them, bin/up --clean removes them.")
    return 0 if ready or asked else 1


def main() -> int:
    parser = argparse.ArgumentParser(description="Called by bin/up.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument(
        "--simulate", type=int, default=0, help="number of simulated hosts; 0: this machine is the host"
    )
    parser.add_argument(
        "--hosts", type=int, default=0, choices=range(MOST_HOSTS + 1), help="number of hosts on this machine; 0: itself"
    )
    parser.add_argument("--external-range", default="", help="IPv4 network that floating IPs of a new cloud come from")
    parser.add_argument("--step", type=int, default=0, help="number of the last step that was taken")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--check", action="store_true", help="only check whether the folder and the port can be used")
    parser.add_argument("--clean", action="store_true")
    options = parser.parse_args()
    for number in (
        signal.SIGTERM,
        signal.SIGHUP,
    ):  # until the supervisor has its own handlers: started processes end with this one
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            signal.signal(number, signal.default_int_handler)
    data = DataFolder(options.data, default=CHECKOUT / "var")
    progress = Progress(options.step, options.steps)
    try:
        external_range = checked_range(options.external_range) if options.external_range else None
    except ValueError:
        print(
            f"bin/up: --external-range takes an IPv4 network such as 192.168.1.128/25, /{SMALLEST} at the smallest,"
            f' not "{options.external_range}".\nTry "bin/up --help".',
            file=sys.stderr,
        )
        return 2
    try:
        if options.clean:
            return clean(data, progress.say)
        if not data.exists:
            health.require_free_port(options.port)
        data.claim()
        data.acquire()
        health.require_free_port(options.port)
        if options.check:
            return 0
        hosts = Hosts.of_this_machine(options.simulate, options.hosts)
        return run(data, options.port, hosts, progress, external_range)
    except (DataFolderError, PreparationError, health.PortError) as error:
        sys.stdout.flush()
        print(f"bin/up: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        progress.say("\nbin/up: stopped before the services started.")
        return 130


if __name__ == "__main__":
    sys.exit(main())
