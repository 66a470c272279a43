"""Keeps the hosts' network namespaces until its standard input is closed, then removes them.

It is a separate process: however the run ends, the kernel closes the pipe to this process's standard input.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from compute_agent.network import cleanup
from compute_agent.network.kernel import namespace
from compute_agent.settings import AgentSettings
from up.switch import Switch, kill

READY = "ready"


def main() -> None:
    """``python bin/libexec tools.chaos.packets.keeper NAME FOLDER HOST...``: the hosts' state folders are in FOLDER."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    switch, states = Switch(sys.argv[1]), [Path(sys.argv[2], host) for host in sys.argv[3:]]
    try:
        switch.make(len(states))
        print(READY, flush=True)
        sys.stdin.read()
    finally:
        remove(switch, states)


def remove(switch: Switch, states: Sequence[Path]) -> None:
    """End all processes in the namespaces, and remove everything that agents have created in the namespaces and on
    disk.
    """
    kill(namespace.listed(f"{switch.name}-"))
    for number, state in enumerate(states, 1):
        settings = AgentSettings(host=state.name, state_dir=state, netns=switch.guests(number))
        if (namespace.FOLDER / switch.machine(number)).exists():
            with namespace.inside(switch.machine(number)):
                cleanup.remove_everything(settings)
    switch.remove()


if __name__ == "__main__":
    main()
