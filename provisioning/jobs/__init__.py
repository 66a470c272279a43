"""The job queue, its workers and periodic work, on top of django-q2."""
