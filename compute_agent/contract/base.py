"""The base class of frames and commands on the agent's WebSocket."""

from typing import ClassVar

from compute_agent.contract.build import Frozen


def _tag(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")


class Message(Frozen, frozen=True, tag_field="type", tag=_tag):
    """Base class of frames; the tag is the class name in snake case."""

    since: ClassVar[int] = 0
    """The contract version that introduced this message; 0 if every supported agent knows the message."""

    def needed_version(self) -> int:
        """Return the oldest contract version with which an agent executes this message correctly.

        A command overrides this method if an older agent would do harm by ignoring a newer field of the command.
        """
        return self.since
