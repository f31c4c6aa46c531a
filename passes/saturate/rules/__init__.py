"""The table of rules, the language of their patterns and conditions, and the checks of a row."""
