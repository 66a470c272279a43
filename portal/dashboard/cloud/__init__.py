"""Pages of operators: the cloud, its hosts, and the usage of projects."""
