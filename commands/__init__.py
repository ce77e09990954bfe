"""One module per command, in the form that `runtime/command.py` describes. Commands do not import each other."""

NAMES = {
    ("agent", "compile"): "compile_program",
    ("corpus", "add"): "add_example",
    ("corpus", "import"): "import_runs",
    ("corpus", "list"): "list_examples",
    ("corpus", "verify"): "verify_corpus",
    ("deploy",): "deploy_operator",
    ("list",): "list_problems",
    ("store", "add"): "add_to_store",
    ("store", "export"): "export_store",
    ("store", "list"): "list_store",
    ("store", "prune"): "prune_store",
    ("store", "show"): "show_store",
    ("store", "verify"): "verify_store",
    ("tune", "export"): "export",
    ("tune", "kernel"): "tune",
    ("tune", "replay"): "replay",
}
"""Names of commands in Python and for agents that differ from the command's path."""
ELSEWHERE = {("mcp",): "mcp_server.command"}
"""Commands whose modules live outside of `commands/`: the MCP server is above it, since it offers its tools."""
