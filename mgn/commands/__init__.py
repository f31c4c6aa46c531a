"""The commands: `mgn-opt` and `mgn-run`."""
