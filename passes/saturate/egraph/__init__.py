"""Saturation: rules compiled for the engine, instances made, layers unfolded, what runs away."""
