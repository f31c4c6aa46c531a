"""Saturation: rules compiled for the engine, instances made, copies of layers, runaway rules."""
