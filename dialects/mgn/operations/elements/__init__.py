"""Operations that work element by element, and those that make elements."""
