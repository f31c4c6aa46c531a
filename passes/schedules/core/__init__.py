"""What every kind of schedule is made of: requests, figures of devices, tiles and blocks."""
