"""Plugins: packages that bring operations, rules, passes and rows of tables of their own."""
