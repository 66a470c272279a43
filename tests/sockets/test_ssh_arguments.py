"""``novella ssh`` takes the command lines that people type for ssh."""

from __future__ import annotations

from portal.client.ssh import SshWish, divided, ssh_command, user_and_server
from tests.support.tables import each_row


@each_row(
    ("typed", "own", "passed_on", "command"),
    [
        ("root@web", ["root@web"], [], []),
        ("web uptime", ["web"], [], ["uptime"]),
        ("web -- uptime -p", ["web"], [], ["uptime", "-p"]),
        ("web ls -l -- x", ["web"], [], ["ls", "-l", "--", "x"]),
        ("-- web uptime", ["web"], [], ["uptime"]),
        ("--os-cloud demo -l me web", ["--os-cloud", "demo", "-l", "me", "web"], [], []),
        ("web --key=k --address 10.0.0.3", ["--key=k", "--address", "10.0.0.3", "web"], [], []),
        ("-p2222 -i k -oA=b web", ["-p", "2222", "-i", "k", "-o", "A=b", "web"], [], []),
        ("-vA -L 80:localhost:80 web", ["web"], ["-v", "-A", "-L", "80:localhost:80"], []),
        ("-NfD1080 me@web", ["me@web"], ["-N", "-f", "-D", "1080"], []),
        ("web -t top -d 1", ["web"], ["-t"], ["top", "-d", "1"]),
        ("-h", ["-h"], [], []),
        ("", [], [], []),
    ],
)
def test_arguments_are_divided(typed: str, own: list[str], passed_on: list[str], command: list[str]) -> None:
    result = divided(typed.split())
    assert ([each for each in result.own if each != "--"], result.passed_on, result.command) == (
        own,
        passed_on,
        command,
    )


@each_row(
    ("text", "found"),
    [
        ("root@web", ("root", "web")),
        ("web", (None, "web")),
        ("a@b@web", ("a@b", "web")),
        ("@web", (None, "@web")),
        ("root@", (None, "root@")),
    ],
)
def test_the_user_stands_before_the_server(text: str, found: tuple[str | None, str]) -> None:
    assert user_and_server(text) == found


def test_options_are_passed_on_before_the_host() -> None:
    words = ssh_command(SshWish("id", "web", "root", passed_on=["-A", "-L", "1:b:2"], command=["x"]))
    assert words[-8:] == ["-A", "-L", "1:b:2", "-l", "root", "--", "web", "x"]
