"""The table of docs/ecosystem.md: which checks pass for which framework, and how many tests stand behind each."""
