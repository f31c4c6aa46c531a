"""`merge-launches`: runs of launches become one launch of resident work-groups."""

from mgn.passes.merge_launches.merge_launches import MergeLaunches

__all__ = ["MergeLaunches"]
