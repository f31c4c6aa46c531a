"""Program text in, `mgn` dialect out."""
