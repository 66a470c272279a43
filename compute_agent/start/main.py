"""``novella-agent``: one agent, or many simulated hosts, in one process with one event loop."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

from compute_agent.engine.threads import Threads
from compute_agent.host import Host
from compute_agent.link.credential import machine_id
from compute_agent.link.errors import HostUnfitError, StartError
from compute_agent.link.portal_link import PortalLink
from compute_agent.start.assembly import MakeServices, make_host, services_of
from compute_agent.start.clean import clean
from compute_agent.start.machine import Machine, prepare
from compute_agent.start.options import Options, parse
from compute_agent.virt.errors import HostError

log = logging.getLogger(__name__)

GRACE = 5.0
"""Seconds that running steps get when the agent stops."""


def command() -> None:
    """Run the command line and end the process, even if a thread hangs in the hypervisor."""
    code = main()
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main(
    argv: Sequence[str] | None = None,
    make_ready: Callable[[Options], Machine] = prepare,
    make_services: MakeServices = services_of,
) -> int:
    """Run the command line and return the exit code; see ``--help``.

    ``make_ready`` prepares the machine, and ``make_services`` assembles a host. Callers with other kinds of hosts pass
    other functions.
    """
    options = parse(argv)
    _log_to_stderr(options.log_level)
    try:
        if options.action == "clean":
            clean(options)
        else:
            machine = make_ready(options)
            asyncio.run(_run(options, machine, make_services))
    except StartError as error:
        log.error("%s", error)  # noqa: TRY400 (a sentence for the operator, not a traceback)
        return error.exit_code
    except HostError as error:
        log.error("%s %s", error.message, error.detail)  # noqa: TRY400
        return HostUnfitError.exit_code
    except Exception:
        log.exception("The agent failed.")
        return 1
    return 0


def _log_to_stderr(level: str) -> None:
    logging.basicConfig(
        stream=sys.stderr, level=level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("websockets").setLevel(logging.WARNING)  # its lower levels show headers, and so the credential


async def _run(options: Options, machine: Machine, make_services: MakeServices) -> None:
    """Serve until SIGTERM or SIGINT, or until a host fails permanently.

    1. create hosts and links, which reports wrong settings; 2. start every host, then keep its link connected; 3. stop
       the hosts.
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    threads = Threads(options.hosts[0].workers, len(options.hosts))
    hosts: list[Host] = []
    serving: list[asyncio.Task[None]] = []
    try:
        found = options.hosts[0].machine_id or machine_id()
        for specified in options.hosts:
            settings = replace(specified, machine_id=found)
            host = make_host(settings, threads, machine, make_services)
            hosts.append(host)
            link = PortalLink(settings, host, threads, machine.opener)
            serving.append(asyncio.ensure_future(_serve(host, link)))
        waiting = asyncio.ensure_future(stopping.wait())
        done, _ = await asyncio.wait([waiting, *serving], return_when=asyncio.FIRST_COMPLETED)
        for task in done - {waiting}:
            task.result()
    finally:
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        await asyncio.gather(*(host.stop(GRACE) for host in hosts))
        threads.close()
    log.info("Stopped; guests continue to run.")


async def _serve(host: Host, link: PortalLink) -> None:
    await host.start()
    await link.run()
