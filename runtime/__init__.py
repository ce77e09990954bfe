"""What commands stand on: what a command is, and what opens devices, jobs and evaluators for one."""
