"""Syntax tree to the mgn dialect: names, values, expressions and statements."""
