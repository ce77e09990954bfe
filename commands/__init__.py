"""One module per command, in the form that `runtime/command.py` describes. Commands do not import each other."""

NAMES = {
    ("agent", "compile"): "compile_program",
    ("corpus", "add"): "add_example",
    ("corpus", "import"): "import_runs",
    ("corpus", "list"): "list_examples",
    ("corpus", "verify"): "verify_corpus",
    ("tune", "export"): "export",
    ("tune", "kernel"): "tune",
    ("tune", "replay"): "replay",
}
"""Names of commands in Python and for agents, if they differ from the path."""
ELSEWHERE = {("mcp",): "mcp_server.command"}
"""Commands whose modules stand beside what they are about: it stands above `commands/`, whose tools it offers."""
