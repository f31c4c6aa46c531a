"""Fitting a run into a budget of memory: launches in another order, or computed twice.

In: the launches of a graph with what they read, write and cost, and a number of bytes. Out: the
launches in an order in which what lives together takes no more, some of them twice.
"""
