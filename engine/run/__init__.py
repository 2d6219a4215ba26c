"""How one step runs: stages of workers, exchange between them, in the driver or as a Spark job."""
