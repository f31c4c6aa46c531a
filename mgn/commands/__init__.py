"""The commands: `mgn-opt` and `mgn-run`, one module each, over the public calls of `mgn`."""
