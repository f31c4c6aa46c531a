"""Operations whose every step is made of the one before."""
