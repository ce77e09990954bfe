"""The MCP server: kernelwright's commands as tools of a coding agent.

It is no `mcp`, since the folder would hide the SDK of that name from whatever runs in the checkout.
"""
