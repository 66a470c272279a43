"""``novella``: the command line."""

import argparse
import asyncio
import logging
import os
import sys
from pathlib import Path

from portal.client.cloud import Cloud
from portal.client.errors import FAILED, ClientError
from portal.client.links import ENVIRONMENT, Link
from portal.client.listener import listen
from portal.client.ssh import SshArguments, SshWish, divided, ssh_command, user_and_server
from portal.client.standard_streams import carry_standard_streams

SSH_PORT = 22
LAST_PORT = 65_535
LOOPBACK = "127.0.0.1"
STOPPED = 130
"""A shell's exit code after Ctrl-C."""

_EPILOG = """Credentials are specified as for the openstack command: --os-cloud, OS_CLOUD or the OS_ variables.
Exit codes: 0 done, 1 failed, 2 wrong command line, 3 not signed in, 4 no such server or address, 5 not allowed, 6 the
server or its port accepts no connection, 7 too many tunnels, 8 the cloud does not answer, 9 the connection was
interrupted. novella ssh ends with the code of ssh."""


def command() -> int:
    """Run the command line; return the exit code."""
    arguments = sys.argv[1:]
    ssh = divided(arguments[1:]) if arguments[:1] == ["ssh"] else SshArguments()
    options = _parser().parse_args(["ssh", *ssh.own] if arguments[:1] == ["ssh"] else arguments)
    options.passed_on, options.command = ssh.passed_on, ssh.command
    logging.getLogger().addHandler(logging.NullHandler())  # warnings of libraries are replaced by one-line messages
    try:
        run: int = options.run(options)
    except ClientError as error:
        sys.stderr.write(f"novella: {error.message}\n")
        return error.code
    except KeyboardInterrupt:
        return STOPPED
    return run


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="novella",
        description="Reach servers of a Novella cloud through the cloud: no floating IP, no security rule.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    everywhere = argparse.ArgumentParser(add_help=False)
    everywhere.add_argument("--os-cloud", metavar="NAME", help="the cloud in clouds.yaml (default: OS_CLOUD)")
    everywhere.add_argument("--address", help="the server's fixed address, where it has several")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    ssh = commands.add_parser(
        "ssh",
        parents=[everywhere],
        help="open a shell on a server, or run a command there: novella ssh USER@NAME uptime",
        usage="novella ssh [options] [USER@]NAME [command [argument ...]]",
        description="Run ssh with a tunnel to the server. Other options are passed on to ssh.",
    )
    ssh.add_argument("server", metavar="[USER@]NAME", help="name or id of the server")
    ssh.add_argument("-l", "--login", metavar="USER", help="login user (default: the user of the image, else root)")
    ssh.add_argument("-i", "--key", metavar="FILE", help="the private key")
    ssh.add_argument("-p", "--port", type=_port, default=SSH_PORT, help="the server's port (default: 22)")
    ssh.add_argument("-o", dest="options", action="append", default=[], metavar="OPTION", help="an option for ssh")
    ssh.set_defaults(run=_ssh)

    tunnel = commands.add_parser(
        "tunnel",
        parents=[everywhere],
        help="forward a local port, or standard input and output, to a port of a server",
        description="Accept connections on this machine and forward each to a port of the server.",
    )
    tunnel.add_argument("target", metavar="NAME:PORT", type=_target, help="name or id of the server, and its port")
    ways = tunnel.add_mutually_exclusive_group()
    ways.add_argument(
        "--listen",
        metavar="[ADDRESS:]PORT",
        type=_listen,
        default=(LOOPBACK, 0),
        help="the address to listen on (default: a free port of 127.0.0.1)",
    )
    ways.add_argument("--stdio", action="store_true", help="forward standard input and output, for ssh's ProxyCommand")
    tunnel.set_defaults(run=_tunnel)
    return parser


def _ssh(options: argparse.Namespace) -> int:
    cloud = Cloud(options.os_cloud)
    user, name = user_and_server(options.server)
    server = cloud.server(name)
    link = cloud.link(server, options.port, options.address)
    login = options.login or user or cloud.login(server)
    key = str(Path(options.key).expanduser()) if options.key else None
    wish = SshWish(server.id, server.name, login, key, options.options, options.passed_on, options.command)
    arguments = ssh_command(wish)
    try:
        os.execvpe(arguments[0], arguments, {**os.environ, ENVIRONMENT: link.dump()})  # noqa: S606 - found by PATH
    except OSError as error:
        raise ClientError(f"ssh cannot be started: {error.strerror}.", FAILED) from error


def _tunnel(options: argparse.Namespace) -> int:
    name, port = options.target
    cloud = Cloud(options.os_cloud)
    server = cloud.server(name)
    if options.stdio:
        asyncio.run(carry_standard_streams(cloud.link(server, port, options.address)))
        return 0
    one_at_a_time = asyncio.Lock()

    async def new_link() -> Link:
        async with one_at_a_time:
            return await asyncio.to_thread(cloud.link, server, port, options.address)

    address, local = options.listen
    asyncio.run(listen(address, local, new_link, f"port {port} of {server.name}"))
    return 0


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= LAST_PORT):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 1 to {LAST_PORT}")
    return int(text)


def _target(text: str) -> tuple[str, int]:
    name, _, port = text.rpartition(":")
    if not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME:PORT")
    return name, _port(port)


def _listen(text: str) -> tuple[str, int]:
    address, _, port = text.rpartition(":")
    return address.strip("[]") or LOOPBACK, 0 if port == "0" else _port(port)


if __name__ == "__main__":
    sys.exit(command())
