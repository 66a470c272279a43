"""The queue: its messages, its rows, and the jobs that are cast."""
