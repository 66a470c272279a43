"""``python -m compute_agent``."""

from compute_agent.link.main import command

command()
