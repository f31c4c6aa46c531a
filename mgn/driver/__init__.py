"""From a module to kernels and a plan: pipelines, the driver that runs them, and its report."""
