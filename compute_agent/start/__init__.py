"""Start and cleanup of an agent: the command line, preparation of the machine, and assembly of the parts."""
