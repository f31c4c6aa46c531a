"""What a kernel is, and what it costs on a device."""
