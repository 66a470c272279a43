"""The cloud: records, rules, scheduler and tasks. Contains no HTTP and no code for hypervisors."""
