"""``manage.py drain``: the plan, the drain and its changes at the command line."""

from __future__ import annotations

import io
import re
import shlex
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from provisioning.drains import execution
from provisioning.drains.models import Drain
from provisioning.hosts.models import Host
from tests.support.cast import People
from tests.support.clouds import Cloud, state_of

pytestmark = pytest.mark.django_db


def run(people: People, *arguments: str) -> tuple[str, object]:
    """The output and the exit status."""
    out = io.StringIO()
    who = ("--user", str(people.operator.user_id), "--project", str(people.operator.project_id))
    with pytest.raises(SystemExit) as ended:
        call_command("drain", "h1", *arguments, *who, stdout=out)
    return out.getvalue(), ended.value.code


def test_a_host_is_drained_from_the_command_line(people: People) -> None:
    cloud = Cloud.make()
    cloud.add_host("h1")
    server = cloud.running(people.alice.context)
    plan, status = run(people)
    assert (status, "stays" in plan) == (1, True)
    assert (run(people, "--way", "stop")[1], Drain.objects.count()) == (0, 0)
    output, status = run(people, "--way", "stop", "--start", "--reason", "disk")
    assert (status, "1 waiting" in output) == (0, True)
    assert "paused" in run(people, "--pause")[0]
    assert "running" in run(people, "--resume")[0]
    cloud.run()
    execution.run_all()
    output, status = run(people, "--wait")
    assert (status, "1 of 1 done" in output, state_of(server)) == (0, True, ("stopped", None))
    with pytest.raises(CommandError):
        call_command(
            "drain",
            "h1",
            "--cancel",
            "--user",
            str(people.operator.user_id),
            "--project",
            str(people.operator.project_id),
        )


def steps(heading: str) -> list[list[str]]:
    """The arguments of each ``manage.py drain`` of a section of the guide that changes something, without the host."""
    section = (Path(settings.BASE_DIR) / "docs/operator-guide.md").read_text().partition(f"### {heading}\n")[2]
    lines = re.findall(r"^ *manage.py drain ([^\n]+)", section.partition("\n### ")[0], re.MULTILINE)
    return [words[1:] for words in map(shlex.split, lines) if len(words) > 1]


@pytest.mark.slow
def test_a_reboot_goes_as_the_guide_says(people: People) -> None:
    cloud = Cloud.make()
    for number, name in enumerate(("h1", "h2"), 1):
        cloud.add_host(name, documents=True)
        Host.objects.filter(name=name).update(host_ip=f"198.51.100.{number}")
        if name == "h1":
            servers = [cloud.running(people.alice.context, name=each) for each in ("web", "db")]
    empty, back = ([each for each in arguments if each != "--wait"] for arguments in steps("Rebooting a host"))
    for arguments, expected in ((empty, "h2"), (back, "h1")):
        Host.objects.filter(name="h1").update(enabled=arguments is back)
        assert run(people, *arguments)[1] == 0
        for _ in range(4):
            cloud.run()
            execution.run_all()
        assert [cloud.fresh(each).host_name for each in servers] == [expected] * 2
        assert [state_of(each) for each in servers] == [("active", None)] * 2


def test_wrong_hosts_and_people_are_refused(people: People) -> None:
    Cloud.make().add_host("h1")
    of = [("--user", str(each.user_id), "--project", str(each.project_id)) for each in (people.operator, people.alice)]
    for arguments in (("nowhere", *of[0]), ("h1", "--wait", *of[0]), ("h1", *of[1]), ("h1", "--user", "nobody")):
        with pytest.raises(CommandError):
            call_command("drain", *arguments, stdout=io.StringIO())
