"""From definitions to Catalyst's optimised plans, and to what the coordinator runs."""
