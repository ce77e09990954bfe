"""TileLang's lowered IR in a launch plan: checked, and compiled with flags and host code of ours."""
