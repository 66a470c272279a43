"""Instances of all projects, their hosts and sizes, and the scheduler's decisions."""
