"""Trim: asked for by API and page, refused, carried out by the fake host and by real guests with and without agent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.test import Client
from msgspec.structs import replace

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.commands import TrimRequest
from compute_agent.contract.messages import Command
from compute_agent.contract.power import PowerState
from compute_agent.virt.errors import UnsupportedError
from compute_agent.virt.libvirt.paths import HostPaths
from provisioning.compute.models import Instance, InstanceAction
from provisioning.events.models import Event
from provisioning.images.models import Image
from tests.agent.cast import build, make_command, make_spec, make_stage, on_stage, power
from tests.compute_api.conftest import V21, launch
from tests.host.cast import EGRESS, SSH, Wish
from tests.host.host_process import HostProcess
from tests.host.lab import Lab, until
from tests.host.woken import wake
from tests.support.cast import Api, People, sign_in_browser
from tests.support.clouds import Cloud, state_of
from tests.support.guest_image import GuestImage

# ----- asked for ------------------------------------------------------------------------------------------------------


@pytest.fixture
def cloud(people: People) -> Cloud:
    cloud = Cloud.make()
    cloud.add_host("h1")
    Image.objects.filter(id=cloud.image.id).update(properties={"hw_qemu_guest_agent": "yes"})
    return cloud


@pytest.fixture
def server(people: People, cloud: Cloud) -> Instance:
    return Instance.objects.get(id=launch(Api(people.alice), cloud))


def ask(api: Api, server: Instance) -> int:
    return int(api.post(f"{V21}/servers/{server.id}/action", {"trim": None}).status_code)


def ordered(cloud: Cloud) -> Command:
    """The one command that the host has been given."""
    [command] = cloud.agents["h1"].take()
    return command


def events_of() -> list[str]:
    return [kind for kind in Event.objects.order_by("id").values_list("kind", flat=True) if ".trim." in kind]


@pytest.mark.django_db
def test_a_member_asks_and_the_record_says_when_it_is_done(people: People, cloud: Cloud, server: Instance) -> None:
    assert ask(Api(people.alice), server) == 202
    assert state_of(server) == ("active", None)
    command = ordered(cloud)
    assert isinstance(command.body, TrimRequest)
    assert command.deadline
    cloud.agents["h1"].carry_out(command)
    action = InstanceAction.objects.get(instance=server, action="trim")
    assert (action.message, action.finished_at is not None) == (None, True)
    assert events_of() == ["instance.trim.start", "instance.trim.end"]
    assert state_of(server) == ("active", None)


@pytest.mark.django_db
def test_an_agent_that_does_not_answer_is_the_action_s_error(people: People, cloud: Cloud, server: Instance) -> None:
    assert ask(Api(people.alice), server) == 202
    cloud.agents["h1"].report(ordered(cloud), "failed", error_code="unsupported", message="No agent answers.")
    shown = Api(people.alice).get(f"{V21}/servers/{server.id}/os-instance-actions").json()["instanceActions"]
    assert [(each["action"], each["message"]) for each in shown if each["action"] == "trim"] == [
        ("trim", "No agent answers.")
    ]
    assert events_of() == ["instance.trim.start", "instance.trim.error"]
    assert state_of(server) == ("active", None)


@pytest.mark.django_db
def test_it_is_refused(people: People, cloud: Cloud, server: Instance) -> None:
    api = Api(people.alice)
    assert ask(Api(people.bob), server) == 403, "readers may not"
    assert ask(Api(people.charlie), server) == 404, "another project's server is not there"
    Instance.objects.filter(id=server.id).update(image_properties={})
    assert ask(api, server) == 409, "its image has no guest agent"
    Instance.objects.filter(id=server.id).update(image_properties={"hw_qemu_guest_agent": "yes"}, vm_state="stopped")
    assert ask(api, server) == 409, "it does not run"
    Instance.objects.filter(id=server.id).update(vm_state="active", locked=True)
    assert ask(api, server) == 409, "it is locked"
    assert not InstanceAction.objects.filter(instance=server, action="trim").exists()
    assert cloud.agents["h1"].take() == []


@pytest.mark.django_db
@pytest.mark.usefixtures("plain_static")
def test_the_page_offers_it_where_there_is_an_agent(people: People, cloud: Cloud, server: Instance) -> None:
    browser, page = Client(), f"/instances/{server.id}/"
    sign_in_browser(browser, people.alice)
    assert not browser.get(page).context["menu"].known["trim"].why
    seen = Event.objects.filter(kind="instance").count()
    assert browser.post(f"{page}trim/").status_code == 303
    assert Event.objects.filter(kind="instance").count() == seen + 1, "the page hears that it begins"
    assert [action.label for action in browser.get(page).context["later_actions"]] == ["Trim"]
    cloud.run()
    labels = [action.label for action in browser.get(page).context["later_actions"]]
    assert labels == ["Trimmed"]
    Instance.objects.filter(id=server.id).update(image_properties={})
    assert browser.get(page).context["menu"].known["trim"].why == "It has no guest agent."
    assert b"It has no guest agent." in browser.get(f"{page}trim/").content


# ----- at the fake host -----------------------------------------------------------------------------------------------


async def test_the_fake_host_trims_what_runs(tmp_path: Path) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        spec = make_spec()
        await stage.do(build(spec))
        done = await stage.do(make_command(TrimRequest(), spec.uuid))
        assert (done.kind, done.power_state) == ("finished", PowerState.RUNNING)
        await stage.do(power(spec.uuid, "stop"))
        failed = await stage.do(make_command(TrimRequest(), spec.uuid))
        assert (failed.kind, failed.error_code) == ("failed", "unsupported")


# ----- a real guest ---------------------------------------------------------------------------------------------------

AGENT = "pid=$(cat /run/qemu-ga.pid); kill -{} $pid"
"""Stops (STOP) or continues (CONT) the guest agent."""
WRITTEN = 40 << 20


@dataclass
class Stage:
    """A guest whose image says that it has an agent, which runs."""

    lab: Lab
    host: HostProcess
    spec: InstanceSpec
    key: Path

    def ssh(self, command: str) -> str:
        """Run a command in the guest."""
        return self.lab.ssh(self.key, self.spec, command)

    def bytes_on_the_host(self) -> int:
        disk = HostPaths(self.lab.settings.state_dir.absolute()).instance(self.spec.uuid).real / "disk.qcow2"
        return disk.stat().st_blocks * 512


@pytest.fixture(scope="module")
def stage(lab: Lab, image: GuestImage, key: Path) -> Iterator[Stage]:
    host = HostProcess(lab.settings, lab.machine.path, image.path)
    host.network.init_host()
    host.driver.init_host()
    ref = replace(image.ref, properties={"hw_qemu_guest_agent": "yes"})
    spec = Wish(1, rules=(EGRESS, SSH), image=ref, public_key=key.with_suffix(".pub").read_text()).spec()
    wake(host, spec)
    yield Stage(lab, host, spec, key)
    host.kill()


@pytest.mark.deep
def test_a_guest_whose_agent_does_not_answer_says_so_and_goes_on(stage: Stage) -> None:
    stage.ssh(AGENT.format("STOP"))
    with pytest.raises(UnsupportedError, match="agent does not answer"):
        stage.host.driver.trim(stage.spec.uuid, 5)
    assert stage.host.driver.power_state(stage.spec.uuid) == PowerState.RUNNING
    stage.ssh(AGENT.format("CONT"))


@pytest.mark.deep
def test_a_guest_with_an_agent_gives_back_what_it_has_deleted(stage: Stage) -> None:
    stage.ssh(f"head -c {WRITTEN} /dev/urandom >/root/much; sync; rm /root/much; sync")
    before = stage.bytes_on_the_host()

    def trimmed() -> bool:
        try:
            stage.host.driver.trim(stage.spec.uuid, 30)
        except UnsupportedError:  # the hypervisor has not heard yet that the agent is there
            return False
        return True

    until(trimmed, "the guest's agent")
    assert stage.bytes_on_the_host() < before - WRITTEN // 2
    assert stage.host.driver.power_state(stage.spec.uuid) == PowerState.RUNNING
