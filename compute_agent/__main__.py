"""``python -m compute_agent``."""

from compute_agent.start.main import command

command()
