"""What every frame and command on the agent's WebSocket is."""

from compute_agent.contract.build import Frozen


def _tag(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")


class Message(Frozen, frozen=True, tag_field="type", tag=_tag):
    """Base of the frames; the tag is the class name in snake case."""
