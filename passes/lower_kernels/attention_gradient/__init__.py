"""The templates of what attention's gradient is made of."""
