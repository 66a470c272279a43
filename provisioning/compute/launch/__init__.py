"""Launch of servers in order of execution, from the request to the command to a host, and the handling of failures."""
