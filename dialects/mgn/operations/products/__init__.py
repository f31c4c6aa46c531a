"""Operations made of products: contractions, attention and what goes with it."""
