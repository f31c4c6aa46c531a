"""The IR levels of mgn, top to bottom: `mgn`, `fusion`, `kernel`, `plan`."""
