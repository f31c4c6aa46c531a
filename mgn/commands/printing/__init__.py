"""What the commands print of a program, of the compiler and of devices."""
