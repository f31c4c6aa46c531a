"""What the commands read: arguments, programs and checkpoints."""
