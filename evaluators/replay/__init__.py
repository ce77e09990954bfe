"""The launch plan: recorded in the candidate's process, executed in one that never loads the candidate's Python."""
