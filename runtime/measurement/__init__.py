"""Figures of a device, measured once and kept: bandwidths, rates, latencies."""
