"""The processes of a worker group: the master, the watchdog, and the workers of django-q2."""
