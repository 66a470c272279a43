"""The cloud: records, rules, scheduler, conductor; knows no HTTP and no hypervisor."""
