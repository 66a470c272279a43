"""What the agent's journal keeps of passwords: nothing once their command has ended and the journal was tidied."""

from __future__ import annotations

from pathlib import Path

import msgspec

from compute_agent.contract.messages import AgentEvent
from compute_agent.engine.outcomes import Outcome
from compute_agent.engine.store import StateStore
from tests.agent.cast import build, make_spec

PASSWORD = "sesame-open-3"


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


def test_a_password_leaves_the_journals_files_with_its_command(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "agent.sqlite3")
    command = build(msgspec.structs.replace(make_spec(), admin_password=PASSWORD))
    store.accept(command)
    assert PASSWORD.encode() in bytes_of(tmp_path), "an agent that starts anew goes on with it"
    event = AgentEvent(seq=store.next_seq(), kind="finished", subject_kind=command.subject_kind,
                       subject_id=command.subject_id, generation=command.generation, command_id=command.id)  # fmt: skip
    store.finish(command, event, Outcome())
    store.prune()
    assert PASSWORD.encode() not in bytes_of(tmp_path)
    store.close()
