"""The MCP server: kernelwright's functions as tools of a coding agent, through `api` alone.

It is no `mcp`, since the folder would hide the SDK of that name from whatever runs in the checkout.
"""
