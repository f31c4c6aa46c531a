"""How values lie in memory, chosen for a whole graph."""
