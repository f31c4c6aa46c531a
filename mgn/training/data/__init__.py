"""Examples of a training run: batches, texts, and a rank's share."""
