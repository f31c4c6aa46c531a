"""Programs in several arrangements, of which prices are asked and times taken."""
