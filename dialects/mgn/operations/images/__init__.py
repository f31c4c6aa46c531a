"""Operations of images: windows, convolutions, pooling and resizing."""
