"""Operations that move elements: from and to places known when compiling, or given by values."""
