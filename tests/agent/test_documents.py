"""Documents of networks and other subjects on a host: stored on disk, listed, replaced, deleted."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import Segment
from compute_agent.contract.commands import CommandBody
from compute_agent.contract.messages import SERVER, Command, Owned, Ownership
from compute_agent.contract.network import (
    FLOATING_IP,
    NETWORK,
    ROUTER,
    SECURITY_GROUP,
    ApplyFloatingIpRequest,
    ApplyNetworkRequest,
    ApplyRouterRequest,
    ApplySecurityGroupRequest,
    FloatingIpDocument,
    ForgetRequest,
    NetworkDocument,
    RouterDocument,
    SecurityGroupDocument,
)
from compute_agent.network.fake import FakeNetwork
from compute_agent.network.state.documents import Document, Documents, kind_of
from tests.agent.cast import Stage, build, make_spec, make_stage, on_stage

ONE, TWO, THREE = (f"5f1d2c3b-0000-4000-8000-00000000000{number}" for number in (1, 2, 3))
NET = NetworkDocument(
    id=ONE, name="net", bridge="br5f1d2c3b000", mtu=1450, segment=Segment(type="vxlan", id=7), subnets=[]
)
ALL: dict[str, tuple[Document, CommandBody]] = {
    NETWORK: (NET, ApplyNetworkRequest(network=NET)),
    ROUTER: (RouterDocument(id=ONE, name="r"), ApplyRouterRequest(router=RouterDocument(id=ONE, name="r"))),
    FLOATING_IP: (
        (fip := FloatingIpDocument(id=ONE, address="203.0.113.9", network_id=TWO, router_id=TWO)),
        ApplyFloatingIpRequest(floating_ip=fip),
    ),
    SECURITY_GROUP: (
        (group := SecurityGroupDocument(id=ONE, rules=[])),
        ApplySecurityGroupRequest(security_group=group),
    ),
}


def command(kind: str, body: CommandBody, generation: int = 1) -> Command:
    return Command(id=str(uuid.uuid4()), subject_kind=kind, subject_id=ONE, generation=generation, body=body)


def documents_of(stage: Stage) -> set[tuple[str, str, int]]:
    assert isinstance(stage.network, FakeNetwork)
    return {(each.subject_kind, each.subject_id, each.generation) for each in stage.network.documents()}


@pytest.mark.parametrize("kind", ALL)
async def test_a_document_is_kept_replaced_and_forgotten(tmp_path: Path, kind: str) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        assert (await stage.do(command(kind, ALL[kind][1]))).kind == "finished"
        assert (await stage.do(command(kind, ALL[kind][1], 3))).kind == "finished"
        assert documents_of(stage) == {(kind, ONE, 3)}
        assert (await stage.do(command(kind, ALL[kind][1], 2))).error_code == "superseded"
        assert [each.generation for each in await stage.host.documents()] == [3]
        for _ in range(2):
            assert (await stage.do(command(kind, ForgetRequest(), 4))).kind == "finished"
        assert documents_of(stage) == set()
        assert (await stage.do(command(kind, ALL[kind][1], 3))).error_code == "superseded"


async def test_a_host_that_returns_forgets_what_is_not_its_own(tmp_path: Path) -> None:
    async with on_stage(make_stage(tmp_path), welcomed=False) as stage:
        for document, _ in ALL.values():
            stage.network.apply(document, 1)
        kept = Owned(subject_kind=ROUTER, subject_id=ONE, generation=2)
        stage.host.resume_owned(Ownership(subjects=[kept, Owned(SERVER, TWO, 1)]))
        async with asyncio.timeout(60):
            while documents_of(stage) != {(ROUTER, ONE, 1)}:
                await asyncio.sleep(0.005)


async def test_a_command_to_a_server_forgets_no_document(tmp_path: Path) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(command(NETWORK, ALL[NETWORK][1]))
        await stage.do(build(make_spec()))
        assert documents_of(stage) == {(NETWORK, ONE, 1)}


@pytest.mark.parametrize("kind", ALL)
def test_documents_outlive_the_agent(tmp_path: Path, kind: str) -> None:
    document = ALL[kind][0]
    assert Documents(tmp_path).put(document, 4)
    again = Documents(tmp_path)
    assert again.of(type(document)) == {ONE: document}
    assert not again.put(document, 4)
    assert not again.put(document, 5)  # the same thing once more
    assert [each.generation for each in Documents(tmp_path).listed()] == [5]
    assert again.remove(kind_of(document), ONE)
    assert not again.remove(kind_of(document), ONE)
    assert Documents(tmp_path).listed() == []


def test_a_document_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    Documents(tmp_path).put(NET, 1)
    (tmp_path / NETWORK / f"{TWO}.json").write_text("{")
    assert [each.subject_id for each in Documents(tmp_path).listed()] == [ONE]


async def test_a_refusal_says_the_newest_number_that_was_seen(tmp_path: Path) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        await stage.do(command(NETWORK, ALL[NETWORK][1], 7))
        refused = await stage.do(command(NETWORK, ALL[NETWORK][1], 3))
        assert (refused.error_code, refused.detail) == ("superseded", {"generation": "7"})
        await stage.do(command(NETWORK, ForgetRequest(), 9))
        assert (await stage.do(command(NETWORK, ALL[NETWORK][1], 9))).detail == {"generation": "9"}


async def test_a_document_is_listed_with_its_digest_and_whether_a_guest_needs_it(tmp_path: Path) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:
        spec = make_spec()
        await stage.do(command(NETWORK, ApplyNetworkRequest(network=NET, digest="d1")))
        other = ApplyNetworkRequest(network=replace(NET, id=THREE), digest="d2")
        await stage.do(replace(command(NETWORK, other), subject_id=THREE))
        await stage.do(build(spec))
        assert spec.ports[0].network.id == ONE
        listed = {(each.subject_id, each.digest, each.in_use) for each in await stage.host.documents()}
        assert listed == {(ONE, "d1", True), (THREE, "d2", False)}


async def test_the_host_is_measured_after_guests_and_failures_not_after_each_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with on_stage(make_stage(tmp_path)) as stage:

        async def wants(each: Command) -> bool:
            await stage.host.audit("127.0.0.1")
            stage.host.audit_wanted.clear()
            await stage.do(each)
            return stage.host.audit_wanted.is_set()

        assert not await wants(command(NETWORK, ApplyNetworkRequest(network=NET)))
        assert await wants(build(make_spec()))
        monkeypatch.setattr(stage.network, "warnings", iter([[], ["It lacks something."]]).__next__)
        assert await wants(command(NETWORK, ApplyNetworkRequest(network=NET), generation=2))


def test_digests_outlive_the_agent(tmp_path: Path) -> None:
    Documents(tmp_path).put(NET, 4, "d1")
    assert Documents(tmp_path).put(NET, 4, "d2") is False
    assert [each.digest for each in Documents(tmp_path).listed()] == ["d2"]
