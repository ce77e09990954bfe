"""What calls commands: here the functions of Python. `cli/` and `mcp_server/` are the others."""
