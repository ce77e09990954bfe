"""The MCP server: kernelwright's commands as tools of a coding agent.

It is not named `mcp`, since the folder would hide the SDK of that name from code that runs in the checkout.
"""
