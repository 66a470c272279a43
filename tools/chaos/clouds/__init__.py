"""The cloud of a run: its processes and its database."""
