"""The doors that speak HTTP."""
