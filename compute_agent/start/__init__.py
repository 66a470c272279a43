"""Starting and cleaning an agent: the command line, the machine's preparation, and the parts put together."""
