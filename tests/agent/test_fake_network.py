"""A simulated host keeps what it was told of networks over a restart, as others do."""

from __future__ import annotations

from pathlib import Path

from compute_agent.contract.network import SECURITY_GROUP, SecurityGroupDocument
from compute_agent.network.fake import FakeNetwork

GROUP = SecurityGroupDocument(id="9c000000-0000-4000-8000-000000000001", stateful=True, rules=[], members=[])


def test_what_it_was_sent_is_there_after_a_restart(tmp_path: Path) -> None:
    FakeNetwork(tmp_path).apply(GROUP, 7)
    again = FakeNetwork(tmp_path)
    assert again.received == {(SECURITY_GROUP, GROUP.id): (GROUP, 7)}
    assert [(each.subject_id, each.generation) for each in again.documents()] == [(GROUP.id, 7)]
    again.forget(SECURITY_GROUP, GROUP.id)
    assert FakeNetwork(tmp_path).documents() == []
