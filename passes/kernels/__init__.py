"""A kernel's body as prices, schedules and templates see it: values, sizes, index maps."""
