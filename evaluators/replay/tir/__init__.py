"""TileLang's lowered IR in a launch plan: checked, and compiled with our own flags and host code."""
